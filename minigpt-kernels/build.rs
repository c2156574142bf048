//! Tells the tests which instruction sets this machine has, as `cfg(host_…)`: libtest can only ignore a test, and say so, at
//! compile time. The program itself asks the CPU that it runs on (`src/cpu.rs`).

/// The `cfg` of each instruction set, and whether this machine has it.
#[cfg(target_arch = "x86_64")]
fn instruction_sets() -> Vec<(&'static str, bool)> {
    use std::arch::is_x86_feature_detected as has;
    let avx2 = has!("avx2") && has!("fma") && has!("f16c");
    let avx512 = avx2 && has!("avx512f");
    let vnni = avx512 && has!("avx512bw") && has!("avx512vnni");
    vec![("host_avx2", avx2), ("host_avx512", avx512), ("host_avx512_vnni", vnni)]
}

#[cfg(not(target_arch = "x86_64"))]
fn instruction_sets() -> Vec<(&'static str, bool)> {
    ["host_avx2", "host_avx512", "host_avx512_vnni"].map(|name| (name, false)).to_vec()
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // What this machine has says nothing about another architecture that is built for.
    let native = std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|target| target == std::env::consts::ARCH);
    for (name, has) in instruction_sets() {
        println!("cargo::rustc-check-cfg=cfg({name})");
        if has && native {
            println!("cargo::rustc-cfg={name}");
        }
    }
}
