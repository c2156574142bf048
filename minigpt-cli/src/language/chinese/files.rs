//! Messages of minigpt-files.

use super::Chinese;
use minigpt_files::{Action, Error, ReadProblem};

impl Chinese for Error {
    fn chinese(&self) -> String {
        match self {
            Self::Io { action, path, source: _ } => format!("无法{} {}", action.chinese(), path.display()),
            Self::NotAFile { path } => format!("{} 不是普通文件", path.display()),
            Self::TooLarge { path, limit } => {
                format!("{} 超过了这类文件的上限 {limit} 字节", path.display())
            }
            Self::NotText { path, position } => {
                format!("{} 不是 UTF-8 文本：第 {position} 个字节有误", path.display())
            }
            Self::Exists { path } => format!("{} 已经存在", path.display()),
            Self::Link { path } => {
                format!("{} 是符号链接，不会覆盖它所指的文件：请删除链接，或换一个路径", path.display())
            }
            Self::Gone { path } => format!("目录 {} 已被删除，或被移到了找不到的地方", path.display()),
            Self::NotOurs { path, other } => {
                format!("{} 中还有 {other:?}，它不是本程序写的，不会删除：请换一个文件夹", path.display())
            }
            Self::Busy { path } => format!("另一个进程正在写 {}", path.display()),
        }
    }
}

impl Chinese for Action {
    fn chinese(&self) -> String {
        let verb = match self {
            Self::Read => "读取",
            Self::Write => "写入",
            Self::Create => "创建",
            Self::Remove => "删除",
            Self::Move => "移动",
            Self::Restore => "恢复",
            Self::Lock => "锁定",
            Self::Map => "映射",
            Self::Copy => "复制",
            Self::CopyToTemporary => "临时复制",
        };
        verb.to_owned()
    }
}

impl Chinese for ReadProblem {
    fn chinese(&self) -> String {
        let text = match self {
            Self::NoWriter => "没有程序向这个管道写数据",
            Self::Shortened => "文件在打开之后变短了",
        };
        text.to_owned()
    }
}
