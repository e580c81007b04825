#include "libsim/training/repeated_heads.hpp"

namespace stagecraft {

std::optional<std::string> repeated_heads_text(TrainingConfig const& config) {
  std::int64_t const heads = config.model.kv_heads;
  std::int64_t const ranks = config.parallel.tensor;
  if (heads < 1 || ranks <= heads) return std::nullopt;
  return std::to_string(ranks) + " tensor ranks share " + std::to_string(heads) +
         (heads == 1 ? " key and value head" : " key and value heads") + ": " +
         std::to_string(ranks / heads) +
         " ranks hold the same head. Megatron-Core before 0.16 refuses such a run; later versions "
         "gather queries, keys and values of all ranks; the predicted time leaves this out";
}

}  // namespace stagecraft
