// A study that only pretends: nine trials, three of which came to the end.

const trials = Array.from({ length: 9 }, (_, number) => {
  const curve = [10, 20, 30].slice(0, number % 3 === 0 ? 3 : 1);
  const values = curve.map((step) => ({ step: BigInt(step), value: 2 / (1 + number) + 1 / step }));
  return {
    number,
    settings: { rate: String(10 ** (-number / 3)), kind: number % 2 === 0 ? '"gelu"' : '"relu"' },
    status: number % 3 === 0 ? "done" : "stopped",
    reason: number % 3 === 0 ? "" : "others were better",
    values: values.slice(-1),
    curve: values,
  };
});

export const fakeStudy = {
  ...{ id: "job-1", name: "rates", status: "done", metric: "validation_loss", search: "random", schedule: "halving" },
  ...{ steps: 30n, every: 10n, trialsWanted: 9, trialsMade: 9, trialsEnded: 9, best: 6, trials },
  searched: [
    { name: "rate", kind: "number", low: 0.001, high: 1, logarithmic: true },
    { name: "kind", kind: "choice", values: ['"gelu"', '"relu"'] },
  ],
};
