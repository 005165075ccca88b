//! The tests.
mod accounts;
mod memory_throwaway;
