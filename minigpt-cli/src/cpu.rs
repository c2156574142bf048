//! A look at the CPU before anything else runs: a build for AVX2 would end in an illegal instruction on one without.

/// What this build needs of the CPU and the CPU lacks; nothing here may itself use it.
#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
#[inline(never)]
pub fn missing() -> Option<&'static str> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // `is_x86_feature_detected!` would answer from the build's own settings, so the CPU is asked directly.
    let has = |bits: u32, bit: u32| bits & (1 << bit) != 0;
    if __cpuid(0).eax < 7 {
        return Some("AVX2");
    }
    let (one, seven) = (__cpuid(1), __cpuid_count(7, 0));
    match (has(seven.ebx, 5), has(one.ecx, 12)) {
        (true, true) => None,
        (false, _) => Some("AVX2"),
        (true, false) => Some("FMA"),
    }
}

/// A build for any CPU of its kind needs nothing.
#[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
pub fn missing() -> Option<&'static str> {
    None
}
