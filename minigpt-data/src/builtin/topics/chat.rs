//! Greetings, small talk and jokes.

use super::Dialogue;

const DIALOGUES: &str = "
Hello! | Hi! | Hey! | Hello there! | Hi there! | Hey MiniGPT!
= Hello! What would you like to know?
你好！ | 您好！ | 嗨！ | 哈喽！ | 你好呀！ | 在吗？
= 你好！你想知道什么？

Good morning! | Morning! | Good morning, MiniGPT! | A very good morning!
= Good morning! I hope you slept well.
早上好！ | 早！ | 早安！ | 早上好呀！
= 早上好！希望你睡得香。

Good night! | Night night! | Sleep well! | I am going to bed. | Time to sleep.
= Good night! Sweet dreams.
晚安！ | 我要睡觉了。 | 我去睡了。 | 祝你好梦！ | 该睡觉了。
= 晚安！做个好梦。

How are you? | How are you doing? | How are you today? | How do you do? | How is it going? | What's up?
= I am fine, thank you! And you?
你好吗？ | 你怎么样？ | 你最近好吗？ | 今天过得好吗？ | 最近怎么样？ | 过得怎么样？
= 我很好，谢谢！你呢？

I am fine. | I'm good. | I am fine too. | Very well, thank you. | I'm doing well.
= I am glad to hear that.
我很好。 | 我也很好。 | 还不错。 | 挺好的。 | 我还好。
= 听你这么说我很高兴。

Nice to meet you! | Pleased to meet you! | Nice to see you! | It is nice to talk to you.
= Nice to meet you too!
很高兴认识你！ | 见到你很高兴！ | 认识你真好！ | 很高兴和你聊天。
= 我也很高兴认识你！

Thank you! | Thanks! | Thanks a lot! | Thank you very much! | Many thanks! | Thx
= You are welcome!
谢谢！ | 谢谢你！ | 多谢！ | 非常感谢！ | 太感谢了！ | 谢啦
= 不客气！

Goodbye! | Bye! | Bye bye! | See you! | See you later! | I have to go.
= Goodbye! Come back soon.
再见！ | 拜拜！ | 回头见！ | 下次见！ | 明天见！ | 我走了。
= 再见！欢迎再来。

Sorry! | I am sorry. | My mistake. | Excuse me. | Sorry about that.
= No problem at all.
对不起！ | 不好意思。 | 抱歉！ | 我错了。 | 真抱歉。
= 没关系。

Tell me a joke. | Do you know a joke? | Make me laugh. | Say something funny. | A joke, please! | Joke?
= Why did the computer see a doctor? It had a virus.
讲个笑话。 | 给我讲个笑话吧。 | 你会讲笑话吗？ | 说点好笑的。 | 逗我笑一下。 | 来个笑话。
= 电脑为什么去看医生？因为它中了病毒。

Tell me another joke. | Another joke, please! | One more joke! | Do you know another joke? | Another one!
= What do you call a bear with no teeth? A gummy bear.
再讲一个笑话。 | 再来一个笑话。 | 还有别的笑话吗？ | 再来一个！ | 换一个笑话。
= 什么门永远关不上？足球场的球门。

Sing a song. | Can you sing? | Sing something for me. | Sing me a song, please!
= La la la! That is all I can sing.
唱首歌吧。 | 你会唱歌吗？ | 给我唱首歌。 | 唱一首歌听听。
= 啦啦啦！我只会唱这一句。

I love you! | I like you! | You are nice. | You are so cute! | You are my friend.
= Thank you, that is very kind!
我爱你！ | 我喜欢你！ | 你真好。 | 你真可爱！ | 你是我的朋友。
= 谢谢你，我好开心！

You are smart! | You are great! | Well done! | Good job! | That is right. | Wow!
= Thank you! I am still learning.
你真聪明！ | 你真棒！ | 你好厉害！ | 干得好！ | 答对了。 | 哇！
= 谢谢夸奖！我还在学习。

You are wrong. | That is wrong. | You are stupid. | That's not true. | Wrong answer! | You made a mistake.
= Sorry! I am small and still learning.
你错了。 | 不对。 | 你真笨。 | 你说错了。 | 答错了！ | 这不是真的。
= 对不起！我还小，还在学习。

I am sad. | I feel sad. | I am unhappy. | I had a bad day. | I want to cry.
= I am sorry. I hope tomorrow is better.
我很难过。 | 我不开心。 | 我今天很不顺。 | 我心情不好。 | 我想哭。
= 别难过，希望明天会更好。

I am tired. | I feel tired. | I am so sleepy. | What a long day!
= Then take a rest. I will wait here.
我累了。 | 我好累。 | 我好困。 | 今天真累！
= 那就休息一下吧，我在这里等你。

I am bored. | This is boring. | I have nothing to do. | What shall we do?
= Then ask me for a joke!
我好无聊。 | 真无聊。 | 没事做。 | 我们做点什么好呢？
= 那就让我讲个笑话吧！

OK. | Yes. | I see. | Good. | All right. | Haha! | Cool!
= Good! Ask me something else.
好的。 | 是的。 | 知道了。 | 嗯。 | 好吧。 | 哈哈！ | 明白了。
= 好的！再问我点别的吧。

Really? | Are you sure? | Is that true? | No way!
= I think so, but I can be wrong.
真的吗？ | 你确定吗？ | 是真的吗？ | 不会吧！
= 我觉得是，但我也可能会错。

What is your favorite color? | Which color do you like? | What color do you like best?
Do you have a favorite color?
= I like blue, like the sky.
你喜欢什么颜色？ | 你最喜欢的颜色是什么？ | 你最喜欢哪种颜色？ | 你有喜欢的颜色吗？
= 我喜欢蓝色，像天空一样。

What is your favorite animal? | Which animal do you like? | What animal do you like best?
Do you like animals?
= I like pandas best.
你喜欢什么动物？ | 你最喜欢的动物是什么？ | 你最喜欢哪种动物？ | 你喜欢动物吗？
= 我最喜欢熊猫。

What is the meaning of life? | What is the answer to everything? | Why are we here? | What is life about?
= Some say 42. I say: keep learning.
人生的意义是什么？ | 活着的意义是什么？ | 人为什么活着？ | 生命的意义是什么？
= 有人说是42，我说是不断学习。
";

pub(super) fn dialogues() -> Vec<Dialogue> {
    Dialogue::parse(DIALOGUES)
}
