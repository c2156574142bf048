//! A look at the CPU before anything else runs: a build for x86-64-v3 would end in an illegal instruction on an older one.

/// What this build needs of the CPU and the CPU lacks.
///
/// This function may use nothing of that itself. It is compiled like all others, so every bit is read back from memory
/// (`black_box`) and tested alone: there is nothing in it that the compiler could make shorter with a newer instruction.
#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
#[inline(never)]
pub fn missing() -> Option<&'static str> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    use std::hint::black_box;
    // `is_x86_feature_detected!` would answer from the build's own settings, so the CPU is asked directly.
    let has = |bits: u32, bit: u32| black_box(bits) & (1 << bit) != 0;
    let one = __cpuid(1);
    let seven = if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
    let extended = if __cpuid(0x8000_0000).eax > 0x8000_0000 { __cpuid(0x8000_0001).ecx } else { 0 };
    // x86-64-v2.
    if !has(one.ecx, 0) {
        return Some("SSE3");
    }
    if !has(one.ecx, 9) {
        return Some("SSSE3");
    }
    if !has(one.ecx, 13) {
        return Some("CMPXCHG16B");
    }
    if !has(one.ecx, 19) {
        return Some("SSE4.1");
    }
    if !has(one.ecx, 20) {
        return Some("SSE4.2");
    }
    if !has(one.ecx, 23) {
        return Some("POPCNT");
    }
    if !has(extended, 0) {
        return Some("LAHF");
    }
    // x86-64-v3. Registers of 256 bits need the operating system, too, which says so with OSXSAVE.
    if !has(one.ecx, 28) || !has(one.ecx, 27) {
        return Some("AVX");
    }
    if !has(seven, 5) {
        return Some("AVX2");
    }
    if !has(one.ecx, 12) {
        return Some("FMA");
    }
    if !has(one.ecx, 29) {
        return Some("F16C");
    }
    if !has(one.ecx, 22) {
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

/// A build for any CPU of its kind needs nothing.
#[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
pub fn missing() -> Option<&'static str> {
    None
}
