//! Memory, cores and name of this machine, where the operating system tells.

/// Memory available without swapping, in bytes.
pub fn available_memory() -> Option<u64> {
    bytes_in("/proc/meminfo", "MemAvailable:")
}

/// Memory that this process uses, in bytes.
pub fn resident_memory() -> Option<u64> {
    bytes_in("/proc/self/status", "VmRSS:")
}

/// Peak memory of this process, in bytes.
pub fn peak_memory() -> Option<u64> {
    bytes_in("/proc/self/status", "VmHWM:")
}

/// The number of cores that this process may use, and that its parent may use. The first is smaller if a launcher binds its
/// processes to cores.
pub fn cores_of_this_process() -> Option<(usize, usize)> {
    let own = std::fs::read_to_string("/proc/self/status").ok()?;
    let parent = value_in(&own, "PPid:")?;
    let parent = std::fs::read_to_string(format!("/proc/{parent}/status")).ok()?;
    let cores = |status: &str| count_listed(value_in(status, "Cpus_allowed_list:")?);
    Some((cores(&own)?, cores(&parent)?))
}

/// Host name of this machine.
pub fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "this machine".to_owned() } else { name.trim().to_owned() }
}

fn value_in<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Counts the numbers in a list such as `0-3,8`.
fn count_listed(list: &str) -> Option<usize> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(last.trim().parse::<usize>().ok()?.checked_sub(first.trim().parse().ok()?)? + 1)
    };
    list.split(',').map(range).sum()
}

fn bytes_in(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_counted() {
        assert_eq!(["0", "0-1", "0-3,8", "2,4,6-7"].map(count_listed), [Some(1), Some(2), Some(5), Some(4)]);
        assert_eq!(["", "x", "3-1"].map(count_listed), [None; 3]);
    }
}
