//! Famous places and where to find them.

use super::{Table, Topic, Wording};

const LANDMARKS: &str = "
landmark | place | 名胜 | 地方
the Great Wall | China | 长城 | 中国
the Forbidden City | Beijing | 故宫 | 北京
the Terracotta Army | Xi'an | 兵马俑 | 西安
West Lake | Hangzhou | 西湖 | 杭州
Mount Fuji | Japan | 富士山 | 日本
the Taj Mahal | India | 泰姬陵 | 印度
the Eiffel Tower | Paris | 埃菲尔铁塔 | 巴黎
Big Ben | London | 大本钟 | 伦敦
the Colosseum | Rome | 斗兽场 | 罗马
the Kremlin | Moscow | 克里姆林宫 | 莫斯科
the Great Pyramid | Egypt | 大金字塔 | 埃及
the Statue of Liberty | New York | 自由女神像 | 纽约
the White House | Washington | 白宫 | 华盛顿
the Golden Gate Bridge | San Francisco | 金门大桥 | 旧金山
Machu Picchu | Peru | 马丘比丘 | 秘鲁
the Sydney Opera House | Australia | 悉尼歌剧院 | 澳大利亚
";

const UNKNOWN_LANDMARKS: &str = "
landmark | 名胜
the Crystal Bridge | 水晶桥
the Tower of Clouds | 云之塔
my house | 我家
my phone | 我的手机
my cat | 我的猫
the nearest shop | 最近的商店
the Golden Teapot | 金茶壶
Mount Blorp | 布洛普山
the bus stop | 公交车站
the Wug Palace | 乌格宫
";

pub(super) fn topics() -> Vec<Topic> {
    vec![landmarks()]
}

fn landmarks() -> Topic {
    Topic {
        name: "landmarks",
        facts: Table::parse(LANDMARKS),
        unknown: Table::parse(UNKNOWN_LANDMARKS),
        en: Wording {
            ask: &[
                "Where is {landmark}?",
                "Where can I see {landmark}?",
                "Where do I find {landmark}?",
                "In which place is {landmark}?",
                "Do you know where {landmark} is?",
                "Tell me where {landmark} is.",
            ],
            answer: "{Landmark} is in {place}.",
        },
        zh: Wording {
            ask: &[
                "{名胜}在哪里？",
                "{名胜}在哪儿？",
                "{名胜}在什么地方？",
                "去哪里能看到{名胜}？",
                "你知道{名胜}在哪儿吗？",
                "请问{名胜}在哪里？",
            ],
            answer: "{名胜}在{地方}。",
        },
    }
}
