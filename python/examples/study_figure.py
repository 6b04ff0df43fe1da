"""A figure for a column of a paper from the CSV of a study: python3 study_figure.py study.csv study.pdf"""

import sys

import matplotlib

matplotlib.use("Agg")
import varve.plot

with varve.plot.style("usenix"):
    axes = varve.plot.waf(sys.argv[1])
    varve.plot.save(axes, sys.argv[2])
