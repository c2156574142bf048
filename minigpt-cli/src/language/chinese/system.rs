//! Errors of the operating system.

use std::io::{Error, ErrorKind};

/// A system error in Chinese by its kind, with its number.
pub(super) fn of_error(error: &Error) -> Option<String> {
    if let Some(inner) = error.get_ref() {
        return super::of_error(inner);
    }
    let text = match error.kind() {
        ErrorKind::NotFound => "没有那个文件或目录",
        ErrorKind::PermissionDenied => "权限不够",
        ErrorKind::AlreadyExists => "文件已存在",
        ErrorKind::NotADirectory => "不是目录",
        ErrorKind::IsADirectory => "是一个目录",
        ErrorKind::DirectoryNotEmpty => "目录非空",
        ErrorKind::StorageFull => "设备上没有空间",
        ErrorKind::QuotaExceeded => "超出磁盘配额",
        ErrorKind::FileTooLarge => "文件过大",
        ErrorKind::ReadOnlyFilesystem => "文件系统只读",
        ErrorKind::InvalidFilename => "文件名无效或过长",
        ErrorKind::ConnectionRefused => "连接被拒绝",
        ErrorKind::ConnectionReset => "连接被重置",
        ErrorKind::ConnectionAborted => "连接中断",
        ErrorKind::NotConnected => "未连接",
        ErrorKind::HostUnreachable => "无法到达主机",
        ErrorKind::NetworkUnreachable => "无法到达网络",
        ErrorKind::AddrInUse => "地址已被占用",
        ErrorKind::AddrNotAvailable => "地址不可用",
        ErrorKind::BrokenPipe => "管道已断开",
        ErrorKind::TimedOut => "超时",
        ErrorKind::UnexpectedEof => "文件意外结束",
        ErrorKind::OutOfMemory => "内存不足",
        _ => return None,
    };
    Some(match error.raw_os_error() {
        Some(number) => format!("{text}（系统错误 {number}）"),
        None => text.to_owned(),
    })
}
