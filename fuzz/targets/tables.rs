//! Gives the fuzzer's bytes to the laws in `laws/tables.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| inventory_fuzz::tables::hold(bytes));
