#!/bin/sh
# Publishes a model with an array of Slurm, and merges the parts when all have succeeded:
#
#     IN=/shared/model.safetensors DEST=s3://bucket/models/minilm/ sh slurm.sh
#
# A part that fails is submitted again with `sbatch --array=3 …`; it sends only what is missing.
set -eu
PARTS=${PARTS:-8}
array=$(sbatch --parsable --job-name=publish --array="1-$PARTS" --requeue --export=ALL \
    --wrap="weightstream publish \"$IN\" \"$DEST\" --part \"\$SLURM_ARRAY_TASK_ID/$PARTS\"")
sbatch --job-name=publish-merge --dependency="afterok:$array" --export=ALL \
    --wrap="weightstream publish \"$IN\" \"$DEST\" --merge"
