//! What the system says about this machine and this program.

/// The memory that can be had without pushing anybody out, where the system tells.
pub fn available_memory() -> Option<u64> {
    bytes_in("/proc/meminfo", "MemAvailable:")
}

/// The memory that this program has, where the system tells.
pub fn resident_memory() -> Option<u64> {
    bytes_in("/proc/self/status", "VmRSS:")
}

/// The most memory that this program has had, where the system tells.
pub fn peak_memory() -> Option<u64> {
    bytes_in("/proc/self/status", "VmHWM:")
}

fn bytes_in(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}
