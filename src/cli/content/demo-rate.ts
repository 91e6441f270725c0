// How fast the demo learns. Apart from its command, since devices are compared by training the same network at the same rate.

export const demoRate = { schedule: "cosine", base: 0.004, warmupSteps: 20, finalShare: 0.1 } as const;
