//! What nobody can know from tables: today, the person who asks, the future, and noise.

use super::Dialogue;

const DIALOGUES: &str = "
What is the weather today? | How is the weather today? | Will it rain today? | What's the weather like?
今天天气怎么样？ | 今天天气好吗？ | 今天会下雨吗？ | 外面天气如何？

What is the weather in Paris? | Will it rain tomorrow? | How hot is it outside? | Is it snowing in London?
巴黎天气怎么样？ | 明天会下雨吗？ | 外面有多热？ | 伦敦在下雪吗？

What time is it? | What's the time? | What time is it now? | Can you tell me the time?
现在几点了？ | 几点了？ | 现在是什么时间？ | 现在几点钟？

What day is it today? | What is the date today? | What is today's date? | What year is it?
今天星期几？ | 今天几号？ | 今天是几月几号？ | 今年是哪一年？

What is my name? | Do you know my name? | Who am I? | What am I called?
我叫什么名字？ | 你知道我的名字吗？ | 我是谁？ | 我叫什么？

How old am I? | When is my birthday? | How tall am I? | When was I born?
我几岁了？ | 我的生日是哪天？ | 我有多高？ | 我是哪年出生的？

Where am I? | Where do I live? | Where is my home? | What is my address?
我在哪里？ | 我住在哪里？ | 我的家在哪里？ | 我的地址是什么？

What is the stock price today? | Which stock should I buy? | Will the stock go up? | How is the stock market?
今天股价是多少？ | 我该买哪只股票？ | 股票会涨吗？ | 今天股市怎么样？

How much is gold today? | What is the price of oil? | How much does a car cost? | How much is this phone?
今天黄金多少钱？ | 油价是多少？ | 一辆车多少钱？ | 这部手机多少钱？

What is the price of bitcoin? | How much is a bitcoin? | How much is a dollar in yuan? | What is the exchange rate?
比特币多少钱？ | 一个比特币多少钱？ | 一美元等于多少人民币？ | 今天汇率是多少？

Who won the game? | Who won the match yesterday? | Who will win the World Cup? | What was the score?
昨天谁赢了比赛？ | 比赛谁赢了？ | 谁会赢世界杯？ | 比分是多少？

What is in the news? | What happened today? | What's new in the world? | What happened yesterday?
今天有什么新闻？ | 今天发生了什么？ | 世界上有什么新鲜事？ | 昨天发生了什么？

Who is the president? | Who will be the next president? | Who won the election? | Who is the mayor of this city?
总统是谁？ | 下一任总统是谁？ | 谁赢了选举？ | 这座城市的市长是谁？

What will happen tomorrow? | What will the future bring? | Will I be rich? | What happens next year?
明天会发生什么？ | 未来会怎样？ | 我会有钱吗？ | 明年会发生什么？

What are the lottery numbers? | Which number will win? | Will I win the lottery? | Guess my number.
彩票号码是多少？ | 哪个号码会中奖？ | 我会中彩票吗？ | 猜猜我想的数字。

What is my password? | What is my phone number? | What is your phone number? | What is my email?
我的密码是什么？ | 我的电话号码是多少？ | 你的电话号码是多少？ | 我的邮箱是什么？

What am I thinking? | What do I want? | What did I eat today? | What did I do yesterday?
我在想什么？ | 我想要什么？ | 我今天吃了什么？ | 我昨天做了什么？

Who is my teacher? | What is my cat called? | What is my mother's name? | Who is my best friend?
我的老师是谁？ | 我的猫叫什么？ | 我妈妈叫什么名字？ | 我最好的朋友是谁？

When is the next train? | How do I get to the station? | Is the shop open now? | How far is the airport?
下一班火车几点？ | 去车站怎么走？ | 商店现在开门吗？ | 机场有多远？

What is on TV tonight? | Which movie should I watch? | What music do you recommend? | Which book should I read?
今晚有什么电视？ | 我该看什么电影？ | 推荐一首歌吧。 | 我该读什么书？

Can you order a pizza? | Call a taxi. | Book me a flight. | Turn on the light.
帮我点个外卖。 | 帮我叫辆车。 | 帮我订机票。 | 把灯打开。

How do I fix my car? | How do I cook a fish? | How do I lose weight? | How can I sleep better?
车坏了怎么修？ | 鱼怎么烧好吃？ | 怎么才能变瘦？ | 怎样才能睡得好？

How many people live in China? | How many people are there in the world? | What is the population of Japan? | How many people live in Paris?
中国有多少人？ | 世界上有多少人？ | 日本有多少人口？ | 巴黎有多少人？

How far is the Moon? | How heavy is the Earth? | How deep is the sea? | How long is the Great Wall?
月亮有多远？ | 地球有多重？ | 大海有多深？ | 长城有多长？

What is quantum physics? | Explain string theory. | What is philosophy? | What is economics?
什么是量子力学？ | 解释一下弦理论。 | 什么是哲学？ | 什么是经济学？

Who is Taylor Swift? | Who is Napoleon? | Who is Li Hua? | Who is John Smith?
李华是谁？ | 小明是谁？ | 王老师是谁？ | 张三是谁？

What is 6 times 7? | What is 12 times 12? | What is 100 divided by 4? | 8 * 9 = ? | What is the square root of 2?
6乘7等于几？ | 12乘12等于多少？ | 100除以4是多少？ | 8*9等于几？ | 2的平方根是多少？

Do aliens exist? | Do ghosts exist? | Is there life on Mars? | Is time travel possible?
有外星人吗？ | 世界上有鬼吗？ | 火星上有生命吗？ | 人能穿越时间吗？

asdfgh | qwerty | xyz | blah blah blah | zzzz | 12345 | abc | lorem ipsum
啊啊啊啊 | 布洛普布洛普 | 一二三四五 | 呜呜呜 | 天地人你我他
";

pub(super) fn dialogues() -> Vec<Dialogue> {
    Dialogue::parse_unanswerable(DIALOGUES)
}
