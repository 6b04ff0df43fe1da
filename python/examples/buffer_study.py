"""Draws the write amplification of scenarios/buffer-study.toml: python3 buffer_study.py study.csv study.pdf"""
import sys
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

runs = pd.read_csv(sys.argv[1])
runs["MiB"] = runs["buffer.size.bytes"] / 2**20
cells = runs.groupby(["drive.preset", "workload.trace"])
figure, axes = plt.subplots(2, 3, figsize=(7.2, 4.2), layout="constrained")
for axis, ((preset, trace), cell) in zip(axes.flat, cells):
    means = cell.groupby(["MiB", "buffer.policy"])["waf"].mean().unstack()
    means.plot(ax=axis, logx=True, marker=".", legend=False, linewidth=1)
    axis.set_title(f"{trace.split('.')[0]}\n{preset}", fontsize=7)
    axis.set(xlabel="buffer, MiB", ylabel="write amplification")
figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=7)
figure.savefig(sys.argv[2])
