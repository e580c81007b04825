#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libsim/model/model_config.hpp"

namespace stagecraft {

/// What a framework's Llama can do.
struct LlamaModel {
  std::string_view owner;     ///< whose it is, for people: "torchtitan"
  bool may_tie = false;       ///< whether embedding and head may have one table
  bool has_head_dim = false;  ///< whether heads may be other than hidden / heads wide
  bool has_half = false;      ///< whether it computes in fp16, too
};

/// What the framework's Llama lacks for a model, a sentence each; empty if it lacks nothing.
std::vector<std::string> llama_gaps(ModelConfig const& model, LlamaModel const& llama);

}  // namespace stagecraft
