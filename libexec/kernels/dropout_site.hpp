#pragma once

#include <string_view>

#include "libexec/kernels/kernel_call.hpp"

namespace stagecraft {

/// The dropout that an op of a module draws for; meaningless for ops that draw nothing.
inline DropoutSite dropout_site(std::string_view module) {
  if (module == "core_attention") return DropoutSite::attention;
  if (module == "attention_output") return DropoutSite::attention_output;
  if (module == "mlp_output") return DropoutSite::mlp_output;
  return DropoutSite::embedding;
}

}  // namespace stagecraft
