//! Animals: what they eat, how they sound, how many legs they have, and what their young are called.

use super::{Table, Topic, Wording};

const FOOD: &str = "
animals | food | 动物 | 食物
pandas | bamboo | 熊猫 | 竹子
rabbits | grass | 兔子 | 青草
cows | grass | 牛 | 青草
horses | grass | 马 | 青草
sheep | grass | 羊 | 青草
cats | fish | 猫 | 鱼
dogs | meat | 狗 | 肉
lions | meat | 狮子 | 肉
monkeys | fruit | 猴子 | 水果
squirrels | nuts | 松鼠 | 坚果
koalas | eucalyptus leaves | 考拉 | 桉树叶
giraffes | leaves | 长颈鹿 | 树叶
frogs | insects | 青蛙 | 虫子
penguins | fish | 企鹅 | 鱼
owls | mice | 猫头鹰 | 老鼠
silkworms | mulberry leaves | 蚕 | 桑叶
";

const UNKNOWN_FOOD: &str = "
animals | 动物
dragons | 恶龙
unicorns | 独角兽
wugs | 乌格兽
mermaids | 美人鱼
ghosts | 鬼
moon cats | 月亮猫
otters | 水獭
lizards | 蜥蜴
snarks | 怪兽
zorbs | 佐布兽
";

const SOUNDS: &str = "
animal | sound | 动物 | 叫声
a dog | woof | 狗 | 汪汪
a cat | meow | 猫 | 喵喵
a cow | moo | 牛 | 哞哞
a sheep | baa | 羊 | 咩咩
a duck | quack | 鸭子 | 嘎嘎
a rooster | cock-a-doodle-doo | 公鸡 | 喔喔
a pig | oink | 猪 | 哼哼
a frog | ribbit | 青蛙 | 呱呱
a bee | buzz | 蜜蜂 | 嗡嗡
a bird | tweet | 小鸟 | 叽叽喳喳
a snake | hiss | 蛇 | 嘶嘶
an owl | hoot | 猫头鹰 | 咕咕
a lion | roar | - | -
a horse | neigh | - | -
";

const UNKNOWN_SOUNDS: &str = "
animal | 动物
a giraffe | 长颈鹿
a rabbit | 兔子
a turtle | 乌龟
a unicorn | 独角兽
a goldfish | 金鱼
a zebra | 斑马
a wug | 乌格兽
a shark | 鲨鱼
";

const LEGS: &str = "
animal | legs | 动物 | 腿
a dog | four legs | 狗 | 有四条腿
a cat | four legs | 猫 | 有四条腿
a horse | four legs | 马 | 有四条腿
an elephant | four legs | 大象 | 有四条腿
a bird | two legs | 鸟 | 有两条腿
a duck | two legs | 鸭子 | 有两条腿
a person | two legs | 人 | 有两条腿
an ant | six legs | 蚂蚁 | 有六条腿
a bee | six legs | 蜜蜂 | 有六条腿
a spider | eight legs | 蜘蛛 | 有八条腿
a snake | no legs | 蛇 | 没有腿
a fish | no legs | 鱼 | 没有腿
";

const UNKNOWN_LEGS: &str = "
animal | 动物
a dragon | 恶龙
an alien | 外星人
a wug | 乌格兽
a centipede | 蜈蚣
a zorb | 佐布兽
a ghost | 鬼
";

/// English has words for them where Chinese says 小.
const YOUNG: &str = "
animal | young
dog | a puppy
cat | a kitten
cow | a calf
sheep | a lamb
horse | a foal
pig | a piglet
duck | a duckling
chicken | a chick
bear | a cub
frog | a tadpole
deer | a fawn
kangaroo | a joey
";

const UNKNOWN_YOUNG: &str = "
animal
dragon
unicorn
snail
wug
zorb
giraffe
octopus
";

pub(super) fn topics() -> Vec<Topic> {
    vec![food(), sounds(), legs(), young()]
}

fn food() -> Topic {
    Topic {
        name: "what animals eat",
        facts: Table::parse(FOOD),
        unknown: Table::parse(UNKNOWN_FOOD),
        en: Wording {
            ask: &[
                "What do {animals} eat?",
                "What do {animals} like to eat?",
                "What food do {animals} eat?",
                "{Animals} eat what?",
                "Do you know what {animals} eat?",
                "Tell me what {animals} eat.",
            ],
            answer: "{Animals} eat {food}.",
        },
        zh: Wording {
            ask: &[
                "{动物}吃什么？",
                "{动物}喜欢吃什么？",
                "{动物}爱吃什么？",
                "{动物}平时吃什么？",
                "你知道{动物}吃什么吗？",
                "请问{动物}吃什么？",
            ],
            answer: "{动物}吃{食物}。",
        },
    }
}

fn sounds() -> Topic {
    Topic {
        name: "animal sounds",
        facts: Table::parse(SOUNDS),
        unknown: Table::parse(UNKNOWN_SOUNDS),
        en: Wording {
            ask: &[
                "What sound does {animal} make?",
                "What does {animal} say?",
                "What noise does {animal} make?",
                "How does {animal} sound?",
                "Do you know what {animal} says?",
                "Tell me what {animal} says.",
            ],
            answer: "{Animal} says {sound}.",
        },
        zh: Wording {
            ask: &[
                "{动物}怎么叫？",
                "{动物}是怎么叫的？",
                "{动物}的叫声是什么？",
                "{动物}的叫声是怎样的？",
                "你知道{动物}怎么叫吗？",
                "请问{动物}怎么叫？",
            ],
            answer: "{动物}的叫声是“{叫声}”。",
        },
    }
}

fn legs() -> Topic {
    Topic {
        name: "legs",
        facts: Table::parse(LEGS),
        unknown: Table::parse(UNKNOWN_LEGS),
        en: Wording {
            ask: &[
                "How many legs does {animal} have?",
                "How many legs has {animal} got?",
                "How many legs are there on {animal}?",
                "Do you know how many legs {animal} has?",
                "Tell me how many legs {animal} has.",
            ],
            answer: "{Animal} has {legs}.",
        },
        zh: Wording {
            ask: &[
                "{动物}有几条腿？",
                "{动物}有多少条腿？",
                "{动物}几条腿？",
                "{动物}一共有几条腿？",
                "你知道{动物}有几条腿吗？",
                "请问{动物}有几条腿？",
            ],
            answer: "{动物}{腿}。",
        },
    }
}

fn young() -> Topic {
    Topic {
        name: "young animals",
        facts: Table::parse(YOUNG),
        unknown: Table::parse(UNKNOWN_YOUNG),
        en: Wording {
            ask: &[
                "What is a baby {animal} called?",
                "What do you call a baby {animal}?",
                "What is a young {animal} called?",
                "What's the name for a baby {animal}?",
                "Do you know what a baby {animal} is called?",
                "Tell me what a baby {animal} is called.",
            ],
            answer: "A baby {animal} is called {young}.",
        },
        zh: Wording::default(),
    }
}
