#!/bin/bash

# Flags of Megatron-LM's examples/mixtral/train_mixtral_8x7b_distributed.sh, in its style.

NNODES=${SLURM_NNODES:-"1"}
TOKENIZER_MODEL=tokenizer.model

MODEL_ARGS=(
    --use-mcore-models
    --disable-bias-linear
    --seq-length 4096
    --max-position-embeddings 32768
    --num-layers 32
    --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --normalization RMSNorm
    --position-embedding-type rope
    --swiglu
    --vocab-size 32000
)

MOE_ARGS=(
    --num-experts 8
    --moe-router-topk 2
    --moe-router-load-balancing-type aux_loss
    --moe-aux-loss-coeff 1e-2
#    --moe-grouped-gemm
    --expert-model-parallel-size 8
)

torchrun --nproc_per_node 8 --nnodes $NNODES pretrain_gpt.py \
    ${MODEL_ARGS[@]} \
    ${MOE_ARGS[@]} \
    --tokenizer-type Llama2Tokenizer --micro-batch-size 1 --global-batch-size 256 --bf16 --lr 1e-4
