//! Gives the fuzzer's bytes to the laws in `laws/commands.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| inventory_fuzz::commands::hold(bytes));
