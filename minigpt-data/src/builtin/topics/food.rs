//! Food and other good things: what they are made from and where they come from.

use super::{Table, Topic, Wording};

const MADE_FROM: &str = "
is | thing | from | 东西 | 原料
is | bread | flour | 面包 | 面粉
are | noodles | flour | 面条 | 面粉
is | flour | wheat | 面粉 | 小麦
is | tofu | soybeans | 豆腐 | 大豆
is | soy sauce | soybeans | 酱油 | 大豆
is | cheese | milk | 奶酪 | 牛奶
is | butter | milk | 黄油 | 牛奶
is | yogurt | milk | 酸奶 | 牛奶
is | wine | grapes | 葡萄酒 | 葡萄
is | chocolate | cocoa beans | 巧克力 | 可可豆
is | ketchup | tomatoes | 番茄酱 | 番茄
is | popcorn | corn | 爆米花 | 玉米
is | ham | pork | 火腿 | 猪肉
is | paper | wood | 纸 | 木头
is | glass | sand | 玻璃 | 沙子
";

const UNKNOWN_MADE_FROM: &str = "
is | thing | 东西
is | zorb cake | 佐布糕
is | moon soup | 月亮汤
is | love | 爱情
is | my bag | 我的包
are | your shoes | 你的鞋
is | blorp | 布洛普
is | plastic | 塑料
are | clouds of glim | 仙云
";

const ORIGIN: &str = "
food | place | 食物 | 地方
pizza | Italy | 比萨饼 | 意大利
lasagna | Italy | 千层面 | 意大利
sushi | Japan | 寿司 | 日本
sashimi | Japan | 生鱼片 | 日本
curry | India | 咖喱 | 印度
pho | Vietnam | - | -
fondue | Switzerland | - | -
tom yum soup | Thailand | 冬阴功汤 | 泰国
bibimbap | Korea | 石锅拌饭 | 韩国
maple syrup | Canada | 枫糖浆 | 加拿大
tea | China | 茶 | 中国
zongzi | China | 粽子 | 中国
mapo tofu | Sichuan | 麻婆豆腐 | 四川
- | - | 热干面 | 武汉
";

const UNKNOWN_ORIGIN: &str = "
food | 食物
zorb cake | 佐布糕
blorp | 布洛普
moon soup | 月亮汤
dragon stew | 恶龙汤
my lunch | 我的午饭
star salad | 星星饭
wug pie | 乌格饼
cloud bread | 云朵面包
";

pub(super) fn topics() -> Vec<Topic> {
    vec![made_from(), origin()]
}

fn made_from() -> Topic {
    Topic {
        name: "what things are made from",
        facts: Table::parse(MADE_FROM),
        unknown: Table::parse(UNKNOWN_MADE_FROM),
        en: Wording {
            ask: &[
                "What {is} {thing} made from?",
                "What {is} {thing} made of?",
                "{Thing} {is} made from what?",
                "Do you know what {thing} {is} made from?",
                "Tell me what {thing} {is} made from.",
                "What do you need to make {thing}?",
            ],
            answer: "{Thing} {is} made from {from}.",
        },
        zh: Wording {
            ask: &[
                "{东西}是用什么做的？",
                "{东西}用什么做？",
                "{东西}是什么做的？",
                "{东西}的原料是什么？",
                "你知道{东西}是用什么做的吗？",
                "请问{东西}是用什么做成的？",
            ],
            answer: "{东西}是用{原料}做的。",
        },
    }
}

fn origin() -> Topic {
    Topic {
        name: "where food comes from",
        facts: Table::parse(ORIGIN),
        unknown: Table::parse(UNKNOWN_ORIGIN),
        en: Wording {
            ask: &[
                "Where does {food} come from?",
                "Where is {food} from?",
                "What is the home of {food}?",
                "{Food} comes from where?",
                "Do you know where {food} comes from?",
                "Tell me where {food} comes from.",
            ],
            answer: "{Food} comes from {place}.",
        },
        zh: Wording {
            ask: &[
                "{食物}来自哪里？",
                "{食物}是哪里的？",
                "{食物}的老家在哪里？",
                "{食物}最早来自哪里？",
                "你知道{食物}来自哪里吗？",
                "请问{食物}是什么地方的？",
            ],
            answer: "{食物}来自{地方}。",
        },
    }
}
