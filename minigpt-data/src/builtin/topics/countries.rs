//! Countries: their capitals and where they lie.

use super::{Table, Topic, Wording};

/// A country on two continents, or whose capital is disputed, has a `-` or isn't here.
const COUNTRIES: &str = "
country | capital | continent | 国家 | 首都 | 洲
China | Beijing | Asia | 中国 | 北京 | 亚洲
Japan | Tokyo | Asia | 日本 | 东京 | 亚洲
South Korea | Seoul | Asia | 韩国 | 首尔 | 亚洲
Mongolia | Ulaanbaatar | Asia | 蒙古 | 乌兰巴托 | 亚洲
Vietnam | Hanoi | Asia | 越南 | 河内 | 亚洲
Thailand | Bangkok | Asia | 泰国 | 曼谷 | 亚洲
India | New Delhi | Asia | 印度 | 新德里 | 亚洲
Malaysia | Kuala Lumpur | Asia | 马来西亚 | 吉隆坡 | 亚洲
the Philippines | Manila | Asia | 菲律宾 | 马尼拉 | 亚洲
Turkey | Ankara | - | 土耳其 | 安卡拉 | -
Russia | Moscow | - | 俄罗斯 | 莫斯科 | -
France | Paris | Europe | 法国 | 巴黎 | 欧洲
Germany | Berlin | Europe | 德国 | 柏林 | 欧洲
Italy | Rome | Europe | 意大利 | 罗马 | 欧洲
Spain | Madrid | Europe | 西班牙 | 马德里 | 欧洲
Portugal | Lisbon | Europe | 葡萄牙 | 里斯本 | 欧洲
the UK | London | Europe | 英国 | 伦敦 | 欧洲
Ireland | Dublin | Europe | 爱尔兰 | 都柏林 | 欧洲
Norway | Oslo | Europe | 挪威 | 奥斯陆 | 欧洲
Sweden | Stockholm | Europe | 瑞典 | 斯德哥尔摩 | 欧洲
Finland | Helsinki | Europe | 芬兰 | 赫尔辛基 | 欧洲
Denmark | Copenhagen | Europe | 丹麦 | 哥本哈根 | 欧洲
Iceland | Reykjavik | Europe | 冰岛 | 雷克雅未克 | 欧洲
Poland | Warsaw | Europe | 波兰 | 华沙 | 欧洲
Austria | Vienna | Europe | 奥地利 | 维也纳 | 欧洲
Greece | Athens | Europe | 希腊 | 雅典 | 欧洲
the Netherlands | Amsterdam | Europe | 荷兰 | 阿姆斯特丹 | 欧洲
Belgium | Brussels | Europe | 比利时 | 布鲁塞尔 | 欧洲
Egypt | Cairo | Africa | 埃及 | 开罗 | 非洲
Kenya | Nairobi | Africa | 肯尼亚 | 内罗毕 | 非洲
Morocco | Rabat | Africa | 摩洛哥 | 拉巴特 | 非洲
Canada | Ottawa | North America | 加拿大 | 渥太华 | 北美洲
the United States | Washington | North America | 美国 | 华盛顿 | 北美洲
Mexico | Mexico City | North America | 墨西哥 | 墨西哥城 | 北美洲
Cuba | Havana | North America | 古巴 | 哈瓦那 | 北美洲
Brazil | Brasilia | South America | 巴西 | 巴西利亚 | 南美洲
Argentina | Buenos Aires | South America | 阿根廷 | 布宜诺斯艾利斯 | 南美洲
Peru | Lima | South America | 秘鲁 | 利马 | 南美洲
Chile | Santiago | South America | 智利 | 圣地亚哥 | 南美洲
Australia | Canberra | Oceania | 澳大利亚 | 堪培拉 | 大洋洲
New Zealand | Wellington | Oceania | 新西兰 | 惠灵顿 | 大洋洲
";

/// Countries of stories, invented ones, and real ones that the table leaves out.
const UNKNOWN: &str = "
country | 国家
Zorland | 佐兰国
Blimia | 布里米亚
Marania | 马拉尼亚
Tolvia | 托尔维亚
Norvalia | 诺瓦利亚
Quaxia | 夸克西亚
Catland | 猫国
Moonland | 月亮国
Atlantis | 大西国
Lilliput | 小人国
Wonderland | 仙境国
Narnia | 纳尼亚
Mordor | 魔多
Wakanda | 瓦坎达
Mali | 马里
Oman | 阿曼
Laos | 老挝
Bolivia | 玻利维亚
South Africa | 南非
Switzerland | 瑞士
Estonia | 爱沙尼亚
Jamaica | 牙买加
Samoa | 萨摩亚
Zambia | 赞比亚
";

pub(super) fn topics() -> Vec<Topic> {
    vec![capitals(), continents()]
}

fn capitals() -> Topic {
    Topic {
        name: "capitals",
        facts: Table::parse(COUNTRIES),
        unknown: Table::parse(UNKNOWN),
        en: Wording {
            ask: &[
                "What is the capital of {country}?",
                "What's the capital of {country}?",
                "Capital of {country}?",
                "Which city is the capital of {country}?",
                "Tell me the capital of {country}.",
                "Do you know the capital of {country}?",
            ],
            answer: "The capital of {country} is {capital}.",
        },
        zh: Wording {
            ask: &[
                "{国家}的首都是哪里？",
                "{国家}的首都是什么？",
                "{国家}的首都在哪儿？",
                "{国家}的首都叫什么？",
                "你知道{国家}的首都吗？",
                "请问{国家}的首都是哪座城市？",
            ],
            answer: "{国家}的首都是{首都}。",
        },
    }
}

fn continents() -> Topic {
    Topic {
        name: "continents",
        facts: Table::parse(COUNTRIES),
        unknown: Table::parse(UNKNOWN),
        en: Wording {
            ask: &[
                "Where is {country}?",
                "Which continent is {country} in?",
                "What continent is {country} on?",
                "Where in the world is {country}?",
                "Do you know where {country} is?",
                "Tell me where {country} is.",
            ],
            answer: "{Country} is in {continent}.",
        },
        zh: Wording {
            ask: &[
                "{国家}在哪里？",
                "{国家}在哪个洲？",
                "{国家}属于哪个洲？",
                "{国家}位于哪个大洲？",
                "你知道{国家}在哪儿吗？",
                "请问{国家}在哪个大洲？",
            ],
            answer: "{国家}在{洲}。",
        },
    }
}
