//! A hash that never changes: it decides what is held out, so it must be the same everywhere and forever.

/// FNV-1a over the parts, then the finaliser of SplitMix64 to spread what FNV leaves in the high bits.
pub(super) fn stable_hash(parts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        // The byte 0xff is in no UTF-8 text: it keeps ["ab", "c"] from being ["a", "bc"].
        for byte in part.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_kept_apart() {
        assert_ne!(stable_hash(&["ab", "c"]), stable_hash(&["a", "bc"]));
        assert_eq!(stable_hash(&["ab", "c"]), stable_hash(&["ab", "c"]));
    }
}
