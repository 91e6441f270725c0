# Which points of a square lie in the circle within it: data, a network, a training, answers. The cells marked "# %%"
# run one by one in Jupyter, VS Code or Spyder; `python circle.py [ADDRESS]` runs all of them against `dcnr up`.

# %% Connect. Without an address it is DCNR_ORCHESTRATOR, or this machine.
import sys

import dcnr

client = dcnr.connect(sys.argv[1] if len(sys.argv) > 1 else None)
print([f"{machine.name} is {machine.status}" for machine in client.pnodes()])

# %% Samples. NumPy arrays and pandas frames are taken as they are; here lists will do.
points = [[(column - 9.5) / 10, (row - 9.5) / 10] for row in range(20) for column in range(20)]
where = ["inside" if x * x + y * y < 0.8 else "outside" for x, y in points]
dataset = client.add_dataset("python-circle", points, where, validation_share=0.2)
print(f"{dataset.samples} samples, splits {', '.join(dataset.splits)}")

# %% A network, as YAML.
network = client.create_network(
    """
name: circle
nodes:
  - { id: hidden, type: linear, config: { in_dim: 2, out_dim: 32, optimizer: adam } }
  - { id: bend, type: tanh }
  - { id: output, type: linear, config: { in_dim: 32, out_dim: 2, optimizer: adam } }
  - { id: loss, type: cost, config: { cost_function: ce_logits } }
edges:
  - { from: hidden, to: bend }
  - { from: bend, to: output }
  - { from: output, to: loss }
outputs: [{ name: logits, node_id: output }]
costs: [{ name: loss, node_id: loss }]
""",
    name="python-circle",
)

# %% Train it and watch. A machine that is lost on the way shows up here, and changes nothing about the weights.
session = client.train(network, "python-circle", steps=60, rate=0.05, validate_every=30, numerics="portable")
for news in client.watch(session):
    for event in news.events:
        print(event.message)
    for wait in news.session.waits:
        print(f"waits: {wait.sentence}")

# %% What became of it. The step root is the same whoever runs this, on whatever machines.
session = client.wait(session)
losses = [metric.value for metric in client.metrics(session, "loss")]
print(f"loss from {losses[0]:.3f} to {losses[-1]:.3f}, validation accuracy {session.validation_accuracy:.2f}")
print(f"step root {session.step_root}")

# %% Ask it.
model = client.serve(session, name="python-circle")
for point, (inside, outside) in zip([[0, 0], [0.95, 0.95]], client.forward(model, [[0, 0], [0.95, 0.95]])["logits"]):
    print(f"{point} is {'inside' if inside > outside else 'outside'}")
client.stop(model)
