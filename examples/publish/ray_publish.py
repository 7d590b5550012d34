"""Publishes a model with several tasks of Ray, on one machine or a cluster.

    python ray_publish.py model.safetensors s3://bucket/models/minilm/ --parts 8 --dtype F16

Every machine needs the program `weightstream`, and the same input: a URL, or a file in a folder that all of them share.
A task whose machine or process ends is run again, and sends only what is missing.
"""

import argparse
import os
import subprocess

import ray

parser = argparse.ArgumentParser()
parser.add_argument("input")
parser.add_argument("destination")
parser.add_argument("--parts", type=int, default=8)
parser.add_argument("--program", default="weightstream")
parser.epilog = "All other arguments are options of `weightstream publish`."
arguments, options = parser.parse_known_args()

command = [arguments.program, "publish", arguments.input, arguments.destination, *options]


@ray.remote(max_retries=3)
def publish(number):
    print(f"part {number} runs in process {os.getpid()}", flush=True)
    subprocess.run([*command, "--part", f"{number}/{arguments.parts}"], check=True)


ray.init(include_dashboard=False)
ray.get([publish.remote(number) for number in range(1, arguments.parts + 1)])
subprocess.run([*command, "--merge"], check=True)
