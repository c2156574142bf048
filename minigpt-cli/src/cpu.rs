//! A look at the CPU before anything else runs: a build for x86-64-v3 would end in an illegal instruction on an older one.

/// The first extension that this build needs and the CPU lacks.
#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
#[inline(never)]
pub fn missing() -> Option<&'static str> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // `is_x86_feature_detected!` would answer from the build's own settings, so the CPU is asked directly.
    let one = __cpuid(1).ecx;
    let seven = if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
    let extended = if __cpuid(0x8000_0000).eax > 0x8000_0000 { __cpuid(0x8000_0001).ecx } else { 0 };
    missing_from(one, seven, extended)
}

/// The first extension of x86-64-v3 that is missing from CPUID's answers: ECX of leaf 1, EBX of leaf 7, ECX of leaf 0x8000_0001.
///
/// It must not use what it checks for, although it is compiled for x86-64-v3 like everything else. So every bit is read back from
/// memory (`black_box`) and tested alone, which leaves the compiler nothing to shorten with a newer instruction.
#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
#[inline(never)]
fn missing_from(one: u32, seven: u32, extended: u32) -> Option<&'static str> {
    let has = |bits: u32, bit: u32| std::hint::black_box(bits) & (1 << bit) != 0;
    // x86-64-v2.
    if !has(one, 0) {
        return Some("SSE3");
    }
    if !has(one, 9) {
        return Some("SSSE3");
    }
    if !has(one, 13) {
        return Some("CMPXCHG16B");
    }
    if !has(one, 19) {
        return Some("SSE4.1");
    }
    if !has(one, 20) {
        return Some("SSE4.2");
    }
    if !has(one, 23) {
        return Some("POPCNT");
    }
    if !has(extended, 0) {
        return Some("LAHF");
    }
    // x86-64-v3. Registers of 256 bits need the operating system, too, which says so with OSXSAVE.
    if !has(one, 28) || !has(one, 27) {
        return Some("AVX");
    }
    if !has(seven, 5) {
        return Some("AVX2");
    }
    if !has(one, 12) {
        return Some("FMA");
    }
    if !has(one, 29) {
        return Some("F16C");
    }
    if !has(one, 22) {
        return Some("MOVBE");
    }
    if !has(seven, 3) {
        return Some("BMI1");
    }
    if !has(seven, 8) {
        return Some("BMI2");
    }
    if !has(extended, 5) {
        return Some("LZCNT");
    }
    None
}

/// A build for any x86-64 or for another architecture needs nothing.
#[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
pub fn missing() -> Option<&'static str> {
    None
}

#[cfg(all(test, target_arch = "x86_64", target_feature = "avx2"))]
mod tests {
    use super::*;

    #[test]
    fn every_extension_of_x86_64_v3_is_checked() {
        let all = u32::MAX;
        assert_eq!(missing_from(all, all, all), None);
        let without = |bit: u32| all & !(1 << bit);
        let one = [
            (0, "SSE3"),
            (9, "SSSE3"),
            (12, "FMA"),
            (13, "CMPXCHG16B"),
            (19, "SSE4.1"),
            (20, "SSE4.2"),
            (22, "MOVBE"),
            (23, "POPCNT"),
            (27, "AVX"),
            (28, "AVX"),
            (29, "F16C"),
        ];
        for (bit, name) in one {
            assert_eq!(missing_from(without(bit), all, all), Some(name));
        }
        for (bit, name) in [(3, "BMI1"), (5, "AVX2"), (8, "BMI2")] {
            assert_eq!(missing_from(all, without(bit), all), Some(name));
        }
        for (bit, name) in [(0, "LAHF"), (5, "LZCNT")] {
            assert_eq!(missing_from(all, all, without(bit)), Some(name));
        }
    }
}
