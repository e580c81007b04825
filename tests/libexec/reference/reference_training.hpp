#pragma once

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "libexec/executor/token_source.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Tensors of the whole model by name, elements with the last axis running fastest.
using NamedTensors = std::map<std::string, std::vector<double>>;

/// A few iterations of a small model as PyTorch ran them; make_reference.py writes them.
struct ReferenceTraining {
  struct Step {
    double loss = 0;
    double gradient_norm = 0;  ///< before clipping
  };
  TrainingConfig config;  ///< on one rank; clips as the steps did
  std::vector<std::vector<std::int64_t>> sequences;
  NamedTensors parameters;     ///< before the first step
  std::vector<double> logits;  ///< [sequence of the global batch, position, word] of the first step
  NamedTensors gradients;      ///< of the first step, not clipped
  std::vector<Step> steps;
  NamedTensors parameters_after;  ///< all steps
};

/// The sequences of a reference, in its order.
class ReferenceTokens : public TokenSource {
 public:
  explicit ReferenceTokens(std::vector<std::vector<std::int64_t>> const& sequences)
      : sequences_{sequences} {}

  void read(std::int64_t number,
            std::int64_t first,
            std::span<std::int64_t> tokens) const override {
    std::vector<std::int64_t> const& whole = sequences_.at(static_cast<std::size_t>(number));
    std::copy_n(whole.begin() + first, tokens.size(), tokens.begin());
  }

 private:
  std::vector<std::vector<std::int64_t>> const& sequences_;
};

inline ModelConfig reference_model(nlohmann::json const& from) {
  ModelConfig model;
  from.at("layers").get_to(model.layers);
  from.at("hidden").get_to(model.hidden);
  from.at("heads").get_to(model.heads);
  from.at("kv_heads").get_to(model.kv_heads);
  from.at("head_dim").get_to(model.head_dim);
  from.at("ffn_hidden").get_to(model.ffn_hidden);
  from.at("sequence").get_to(model.sequence);
  from.at("vocabulary").get_to(model.vocabulary);
  from.at("norm_epsilon").get_to(model.norm_epsilon);
  from.at("rotary_base").get_to(model.rotary_base);
  from.at("tied_embeddings").get_to(model.tied_embeddings);
  from.at("biases").get_to(model.biases);
  from.at("dropout").get_to(model.dropout);
  model.norm = from.at("norm") == "rmsnorm" ? Norm::rmsnorm : Norm::layernorm;
  model.activation = from.at("activation") == "swiglu" ? Activation::swiglu : Activation::gelu;
  model.positions = from.at("positions") == "rotary" ? Positions::rotary : Positions::learned;
  model.vocabulary_multiple = 2;  // padded, so that padding is seen to have no effect
  model.precision = Precision::fp64;
  return model;
}

inline Hyperparameters reference_hyperparameters(nlohmann::json const& from) {
  Hyperparameters numbers;
  from.at("seed").get_to(numbers.seed);
  from.at("learning_rate").get_to(numbers.learning_rate);
  from.at("beta1").get_to(numbers.beta1);
  from.at("beta2").get_to(numbers.beta2);
  from.at("epsilon").get_to(numbers.epsilon);
  from.at("weight_decay").get_to(numbers.weight_decay);
  from.at("clip").get_to(numbers.clip);
  return numbers;
}

/// Reads a file of this folder, e.g. "llama_dropout".
inline ReferenceTraining read_reference(std::string const& name) {
  std::ifstream file{STAGECRAFT_SOURCE_DIR "/tests/libexec/reference/" + name + ".json"};
  auto const from = nlohmann::json::parse(file);
  ReferenceTraining reference;
  reference.config.model = reference_model(from.at("model"));
  reference.config.training = reference_hyperparameters(from.at("training"));
  from.at("batch").at("global").get_to(reference.config.batch.global);
  from.at("batch").at("micro").get_to(reference.config.batch.micro);
  from.at("sequences").get_to(reference.sequences);
  from.at("parameters").get_to(reference.parameters);
  from.at("logits").get_to(reference.logits);
  from.at("gradients").get_to(reference.gradients);
  for (nlohmann::json const& step : from.at("steps")) {
    reference.steps.push_back({step.at("loss"), step.at("gradient_norm")});
  }
  from.at("parameters_after").get_to(reference.parameters_after);
  return reference;
}

}  // namespace stagecraft
