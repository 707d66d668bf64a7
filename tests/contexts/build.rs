//! The tests' programs export the variable of the thread context, because OTEP 4947 requires this of a program that has it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-tests=-Wl,--export-dynamic-symbol=otel_thread_ctx_v1");
}
