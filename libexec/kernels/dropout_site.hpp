#pragma once

#include "libexec/kernels/kernel_call.hpp"

namespace stagecraft {

/// The dropout that an op of a module draws for; meaningless for ops that draw nothing.
inline DropoutSite dropout_site(Module module) {
  switch (module) {
    case Module::core_attention:
      return DropoutSite::attention;
    case Module::attention_output:
      return DropoutSite::attention_output;
    case Module::mlp_output:
      return DropoutSite::mlp_output;
    default:
      return DropoutSite::embedding;
  }
}

}  // namespace stagecraft
