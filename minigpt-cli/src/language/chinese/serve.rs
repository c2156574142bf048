//! Messages of minigpt-serve: what keeps a server from starting. Its answers to clients are English.

use super::Chinese;
use minigpt_serve::Error;

impl Chinese for Error {
    fn chinese(&self) -> String {
        match self {
            Self::Bind { host, port, source: _ } => format!("无法监听 {host}:{port}"),
            Self::UnknownHost { host } => format!("找不到主机 {host:?}"),
            Self::Threads(_) => "无法启动服务器的线程".to_owned(),
            Self::Origin(origin) => {
                format!(
                    "{origin} 不是来源：请写 scheme://host[:port]，某协议的全部来源写 scheme://*，任意来源写 *"
                )
            }
            Self::Host(host) => format!("{host:?} 不是主机名：不要写协议和路径，例如 host.docker.internal"),
            Self::Key => "密钥为空，或含有请求头不能携带的字符：请使用 ASCII 字母、数字和标点".to_owned(),
            Self::SameName(name) => format!("有两个模型都叫 {name}：请给其中一个换个名字"),
            Self::EngineFailed { model, message } => format!("{model} 的引擎因内部错误退出：{message}"),
            Self::Engine(error) => error.chinese(),
        }
    }
}
