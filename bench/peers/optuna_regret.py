# Median regret of Optuna's samplers after 50 and 100 trials on the three functions of bench/tuning.ts, as JSON.
# Needs Optuna: python3 -m venv V && V/bin/pip install optuna, then V/bin/python optuna_regret.py [seeds].
import json
import math
import statistics
import sys
import warnings

import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.filterwarnings("ignore")

hartmann_a = [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
hartmann_p = [
    [1312, 1696, 5569, 124, 8283, 5886],
    [2329, 4135, 8307, 3736, 1004, 9991],
    [2348, 1451, 3522, 2883, 3047, 6650],
    [4047, 8828, 8732, 5743, 1091, 381],
]


def branin(trial):
    x = trial.suggest_float("x", -5, 10)
    y = trial.suggest_float("y", 0, 15)
    bowl = y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6
    return bowl**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10 - 0.39788735772973816


def hartmann6(trial):
    x = [trial.suggest_float(f"x{i}", 0, 1) for i in range(6)]
    total = 0.0
    for i, weight in enumerate([1, 1.2, 3, 3.2]):
        total += weight * math.exp(-sum(hartmann_a[i][j] * (x[j] - hartmann_p[i][j] / 1e4) ** 2 for j in range(6)))
    return 3.322368011415512 - total


def training(trial):
    rate = math.log10(trial.suggest_float("rate", 1e-5, 1, log=True)) + 2.5
    width = math.log2(trial.suggest_int("width", 8, 512, log=True)) - 7
    kind = {"relu": 0.1, "gelu": 0.0, "tanh": 0.3}[trial.suggest_categorical("kind", ["relu", "gelu", "tanh"])]
    decay = math.log10(trial.suggest_float("decay", 1e-6, 1, log=True)) + 3
    return rate**2 * 0.3 + width**2 * 0.05 + kind + decay**2 * 0.05 * (1 + abs(rate))


def regrets(function, sampler, seeds):
    after = {50: [], 100: []}
    for seed in range(seeds):
        study = optuna.create_study(sampler=sampler(seed=seed))
        study.optimize(function, n_trials=100)
        values = [trial.value for trial in study.trials]
        for trials in after:
            after[trials].append(min(values[:trials]))
    return {str(trials): statistics.median(values) for trials, values in after.items()}


seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
found = {"optuna": optuna.__version__}
for function in (branin, hartmann6, training):
    found[function.__name__] = regrets(function, optuna.samplers.TPESampler, seeds)
print(json.dumps(found))
