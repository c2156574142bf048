// A tree of words for the beam search: after each beginning, what may follow. Greedy misses the
// likeliest sentence.
export const TREES = {
  en: {
    "": { the: 0.5, a: 0.4, my: 0.1 },
    the: { nice: 0.4, dog: 0.35, car: 0.25 },
    a: { dog: 0.9, car: 0.1 },
    my: { dog: 0.5, car: 0.5 },
    "the nice": { house: 0.4, dog: 0.35, day: 0.25 },
    "the dog": { barks: 0.5, sleeps: 0.3, runs: 0.2 },
    "the car": { stops: 0.6, drives: 0.4 },
    "a dog": { barks: 0.8, runs: 0.2 },
    "a car": { stops: 0.5, drives: 0.5 },
    "my dog": { barks: 0.6, sleeps: 0.4 },
    "my car": { stops: 0.5, drives: 0.5 },
  },
  zh: {
    "": { 今天: 0.5, 小狗: 0.4, 火车: 0.1 },
    今天: { 天气: 0.4, 早上: 0.35, 晚上: 0.25 },
    小狗: { 正在: 0.9, 已经: 0.1 },
    火车: { 正在: 0.5, 已经: 0.5 },
    "今天 天气": { 很好: 0.4, 转凉: 0.35, 有雨: 0.25 },
    "今天 早上": { 下雨: 0.5, 出门: 0.3, 开会: 0.2 },
    "今天 晚上": { 加班: 0.6, 聚餐: 0.4 },
    "小狗 正在": { 睡觉: 0.8, 奔跑: 0.2 },
    "小狗 已经": { 睡着: 0.5, 吃饱: 0.5 },
    "火车 正在": { 进站: 0.6, 加速: 0.4 },
    "火车 已经": { 到站: 0.5, 出发: 0.5 },
  },
};
