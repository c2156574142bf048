//! Elements, formulas, planets, the body, and the biggest and fastest of things.

use super::{Table, Topic, Wording};

const ELEMENTS: &str = "
element | symbol | 元素 | 符号
hydrogen | H | 氢 | H
helium | He | 氦 | He
carbon | C | 碳 | C
nitrogen | N | 氮 | N
oxygen | O | 氧 | O
sodium | Na | 钠 | Na
calcium | Ca | 钙 | Ca
iron | Fe | 铁 | Fe
copper | Cu | 铜 | Cu
silver | Ag | 银 | Ag
gold | Au | 金 | Au
lead | Pb | 铅 | Pb
";

const UNKNOWN_ELEMENTS: &str = "
element | 元素
kryptonite | 氪石
mithril | 秘银
blorp | 布洛普
wood | 木头
plastic | 塑料
chocolate | 巧克力
moonlight | 月光
zorbium | 佐布石
sand | 沙子
";

const PLANETS: &str = "
planet | place | 行星 | 位置
Mercury | first | 水星 | 一
Venus | second | 金星 | 二
Earth | third | 地球 | 三
Mars | fourth | 火星 | 四
Jupiter | fifth | 木星 | 五
Saturn | sixth | 土星 | 六
Uranus | seventh | 天王星 | 七
Neptune | eighth | 海王星 | 八
";

/// `the most` is how the answer says it; `also` is another way to ask.
const SUPERLATIVES: &str = "
the most | also | what | 最 | 什么
the largest animal | the biggest animal in the world | the blue whale | 世界上最大的动物 | 蓝鲸
the tallest animal | the tallest animal in the world | the giraffe | 世界上最高的动物 | 长颈鹿
the fastest land animal | the fastest animal on land | the cheetah | 陆地上跑得最快的动物 | 猎豹
the largest bird | the biggest bird in the world | the ostrich | 世界上最大的鸟 | 鸵鸟
the highest mountain | the tallest mountain in the world | Mount Everest | 世界上最高的山 | 珠穆朗玛峰
the largest ocean | the biggest ocean in the world | the Pacific Ocean | 世界上最大的海洋 | 太平洋
the largest continent | the biggest continent | Asia | 世界上最大的洲 | 亚洲
the largest country | the biggest country in the world | Russia | 世界上面积最大的国家 | 俄罗斯
the largest island | the biggest island in the world | Greenland | 世界上最大的岛 | 格陵兰岛
the deepest lake | the deepest lake in the world | Lake Baikal | 世界上最深的湖 | 贝加尔湖
the longest river in China | China's longest river | the Yangtze | 中国最长的河 | 长江
the largest planet | the biggest planet | Jupiter | 太阳系最大的行星 | 木星
the hottest planet | the hottest planet in the solar system | Venus | 太阳系最热的行星 | 金星
the nearest star | the closest star to the Earth | the Sun | 离地球最近的恒星 | 太阳
the lightest element | the lightest element of all | hydrogen | 最轻的元素 | 氢
the hardest natural material | the hardest material in nature | diamond | 自然界最硬的物质 | 金刚石
";

const UNKNOWN_SUPERLATIVES: &str = "
the most | also | 最
the best song | the best song in the world | 世界上最好听的歌
the funniest word | the funniest word of all | 世界上最好笑的词
the tastiest soup | the tastiest soup in the world | 世界上最好喝的汤
the nicest city | the nicest city in the world | 世界上最美的城市
the oldest tree | the oldest tree in my street | 我家门口最老的树
the cheapest phone | the cheapest phone today | 今天最便宜的手机
the longest book | the longest book in my house | 我家里最厚的书
the richest person | the richest person in the world | 世界上最富的人
the best movie | the best movie of this year | 今年最好看的电影
";

pub(super) fn topics() -> Vec<Topic> {
    vec![elements(), planets(), superlatives()]
}

fn elements() -> Topic {
    Topic {
        name: "elements",
        facts: Table::parse(ELEMENTS),
        unknown: Table::parse(UNKNOWN_ELEMENTS),
        en: Wording {
            ask: &[
                "What is the chemical symbol for {element}?",
                "What's the symbol for {element}?",
                "What is the symbol of {element}?",
                "Symbol for {element}?",
                "Do you know the symbol for {element}?",
                "Tell me the chemical symbol of {element}.",
            ],
            answer: "The symbol for {element} is {symbol}.",
        },
        zh: Wording {
            ask: &[
                "{元素}的元素符号是什么？",
                "{元素}的化学符号是什么？",
                "{元素}的符号是什么？",
                "{元素}用什么符号表示？",
                "你知道{元素}的元素符号吗？",
                "请问{元素}的元素符号是什么？",
            ],
            answer: "{元素}的元素符号是{符号}。",
        },
    }
}

fn planets() -> Topic {
    Topic {
        name: "planets",
        facts: Table::parse(PLANETS),
        unknown: Table::default(),
        en: Wording {
            ask: &[
                "Which planet is {place} from the Sun?",
                "What is the {place} planet from the Sun?",
                "What is the {place} planet?",
                "{Place} planet from the Sun?",
                "Name the {place} planet from the Sun.",
                "Tell me the {place} planet.",
            ],
            answer: "The {place} planet from the Sun is {planet}.",
        },
        zh: Wording {
            ask: &[
                "太阳系的第{位置}颗行星是什么？",
                "离太阳第{位置}近的行星是哪个？",
                "第{位置}颗行星是什么？",
                "太阳系第{位置}颗行星叫什么？",
                "你知道第{位置}颗行星是哪个吗？",
                "请问离太阳第{位置}近的是哪颗行星？",
            ],
            answer: "离太阳第{位置}近的行星是{行星}。",
        },
    }
}

fn superlatives() -> Topic {
    Topic {
        name: "superlatives",
        facts: Table::parse(SUPERLATIVES),
        unknown: Table::parse(UNKNOWN_SUPERLATIVES),
        en: Wording {
            ask: &[
                "What is {the most}?",
                "What's {the most}?",
                "What is {also}?",
                "Do you know {the most}?",
                "Tell me {the most}.",
                "{Also}?",
            ],
            answer: "{The most} is {what}.",
        },
        zh: Wording {
            ask: &[
                "{最}是什么？",
                "{最}是哪个？",
                "{最}叫什么？",
                "什么是{最}？",
                "你知道{最}是什么吗？",
                "请问{最}是什么？",
            ],
            answer: "{最}是{什么}。",
        },
    }
}
