#pragma once

#include <string>
#include <vector>

#include "libsim/modules/blocks.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft {

/// A block and what it was built from, for failure messages.
struct NamedBlock {
  std::string name;
  BlockProgram block;
};

/// Blocks of every kind and of many mixtures of model, policy and layout.
inline std::vector<NamedBlock> blocks_of_many_kinds() {
  std::vector<RecomputePolicy> policies(1);
  for (auto const& modules :
       {std::vector<std::string>{"core_attention"}, std::vector<std::string>{"mlp"},
        std::vector<std::string>{"layernorm"},
        std::vector<std::string>{"core_attention", "layernorm"},
        std::vector<std::string>{"core_attention", "mlp", "layernorm"}}) {
    policies.push_back({.granularity = RecomputeGranularity::selective, .modules = modules});
  }
  policies.push_back({.granularity = RecomputeGranularity::full});
  policies.push_back({.granularity = RecomputeGranularity::full, .sharded_checkpoints = true});

  ModelConfig const paper = gpt(1, 256, 8, 64, 1000);
  ModelConfig llama = paper;
  llama.kv_heads = 2;
  llama.activation = Activation::swiglu;
  llama.norm = Norm::rmsnorm;
  llama.positions = Positions::rotary;
  llama.attention = Attention::flash;
  llama.biases = false;
  llama.dropout = 0;
  ModelConfig grouped = paper;
  grouped.kv_heads = 2;
  grouped.positions = Positions::rotary;
  ModelConfig regenerated = paper;
  regenerated.dropout_mask = DropoutMask::regenerated;
  ModelConfig fused = paper;
  fused.softmax_dropout = SoftmaxDropout::fused;
  ModelConfig dry = paper;
  dry.dropout = 0;
  ModelConfig parallel = dry;
  parallel.residual = Residual::parallel;
  parallel.positions = Positions::rotary;
  ModelConfig falcon = llama;
  falcon.residual = Residual::parallel_one_norm;
  falcon.norm = Norm::layernorm;
  falcon.activation = Activation::geglu;
  falcon.qkv_bias = true;
  ModelConfig opt = paper;
  opt.activation = Activation::relu;
  opt.attention_dropout = 0;
  opt.position_rows = 66;
  ModelConfig wet_parallel = opt;
  wet_parallel.residual = Residual::parallel;
  ModelConfig wide = paper;
  wide.precision = Precision::fp64;

  std::vector<NamedBlock> blocks;
  int model_number = 0;
  for (ModelConfig const& model : {paper, llama, grouped, regenerated, fused, dry, wide, parallel,
                                   falcon, opt, wet_parallel}) {
    for (int const t : {1, 2, 8}) {
      for (bool const sequence : {false, true}) {
        if (sequence && t == 1) continue;
        BlockShape const shape{
            .model = model, .tensor = t, .sequence_parallel = sequence, .micro = 2};
        std::string const name = "model " + std::to_string(model_number) + " t " +
                                 std::to_string(t) + (sequence ? " sequence" : "");
        blocks.push_back({name + " inputs", build_inputs(shape)});
        blocks.push_back({name + " embedding", build_embedding(shape)});
        blocks.push_back({name + " head", build_head(shape, HeadWeight::own)});
        for (std::size_t i = 0; i < policies.size(); ++i) {
          if (policies[i].sharded_checkpoints && (t == 1 || sequence)) continue;
          for (int const layers : {1, 3}) {
            RecomputePolicy policy = policies[i];
            policy.layers = layers;
            blocks.push_back(
                {name + " policy " + std::to_string(i) + " layers " + std::to_string(layers),
                 build_layers(shape, layers, policy)});
          }
        }
      }
    }
    ++model_number;
  }
  return blocks;
}

}  // namespace stagecraft
