# PyTorch's side of the compute benchmark: the same networks, one thread, fused Adam. Reads a number of steps a line,
# answers with one line of JSON.

import json
import math
import resource
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(1)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
        )

    def forward(self, x, y):
        return F.cross_entropy(self.layers(x), y)


def rope_tables(positions, width):
    angles = torch.arange(positions)[:, None] * 10000.0 ** (-torch.arange(0, width, 2) / width)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Block(nn.Module):
    def __init__(self, dim, heads, context, dropout):
        super().__init__()
        self.heads = heads
        self.norm_a, self.norm_b = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.dropout = nn.Dropout(dropout)
        cos, sin = rope_tables(context, dim // heads)
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)

    def forward(self, x):
        batch, context, dim = x.shape
        split = self.qkv(self.norm_a(x)).view(batch, context, 3, self.heads, dim // self.heads)
        q, k, v = (part.transpose(1, 2) for part in split.unbind(2))
        q, k = rotate(q, self.cos, self.sin), rotate(k, self.cos, self.sin)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(mixed.transpose(1, 2).reshape(batch, context, dim)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm_b(x)))))


class OneBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.block = Block(dim, heads, 128, 0.0)

    def forward(self, x, y):
        return F.mse_loss(self.block(x), y)


class T1(nn.Module):
    def __init__(self, vocabulary=10000, dim=512, blocks=6, heads=8, context=128):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dim)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(dim, heads, context, 0.1) for _ in range(blocks))
        self.norm = nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 8 * dim), nn.Linear(4 * dim, dim)

    def forward(self, ids, labels):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        value, gate = self.up(self.norm(x)).chunk(2, dim=-1)
        x = self.down(value * F.silu(gate))
        logits = F.linear(x, self.embedding.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))


def workload(name):
    if name == "mlp":
        return Mlp(), torch.randn(128, 784), torch.randint(0, 10, (128,))
    if name.startswith("block"):
        dim = int(name[5:])
        return OneBlock(dim, dim // 64), torch.randn(8, 128, dim), torch.randn(8, 128, dim)
    return T1(), torch.randint(0, 10000, (4, 128)), torch.randint(0, 10000, (4, 128))


model, inputs, labels = workload(sys.argv[1])
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)


def step():
    optimizer.zero_grad(set_to_none=True)
    loss = model(inputs, labels)
    loss.backward()
    optimizer.step()
    return loss.item()


def resident_mb():
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


print(json.dumps({"ready": True, "version": torch.__version__}), flush=True)
for line in sys.stdin:
    count = int(line)
    cpu, wall = time.process_time(), time.perf_counter()
    losses = [step() for _ in range(count)]
    result = {
        "cpuMs": (time.process_time() - cpu) * 1000 / count,
        "wallMs": (time.perf_counter() - wall) * 1000 / count,
        "rssMb": resident_mb(),
        "losses": losses,
    }
    assert all(math.isfinite(loss) for loss in losses)
    print(json.dumps(result), flush=True)
