#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libsim/model/model_config.hpp"

namespace stagecraft {

/// What a framework's model of Llama leaves open.
struct LlamaModel {
  std::string_view owner;     ///< whose it is, for people: "torchtitan"
  bool may_tie = false;       ///< whether embedding and head may have one table
  bool has_head_dim = false;  ///< whether heads may be other than hidden / heads wide
  bool has_half = false;      ///< whether it computes in fp16, too
};

/// What a model has that the framework's Llama has not, each with what that is; empty if it has
/// all.
std::vector<std::string> llama_gaps(ModelConfig const& model, LlamaModel const& llama);

}  // namespace stagecraft
