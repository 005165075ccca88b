//! Gives the fuzzer's bytes to the laws in `laws/parameters.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| inventory_fuzz::parameters::hold(bytes));
