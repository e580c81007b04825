#include "libsim/search/policy_codes.hpp"

#include <algorithm>

#include "libsim/search/module_policies.hpp"

namespace stagecraft {

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> found;
  for (std::int64_t i = 1; i <= number / i; ++i) {
    if (number % i != 0) continue;
    found.push_back(i);
    if (i != number / i) found.push_back(number / i);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<PolicyCode> uniform_policies(std::int64_t chunk_layers,
                                         std::span<PolicyCode const> modules) {
  std::vector<PolicyCode> codes{{RecomputeKind::none, 0}, {RecomputeKind::selective, 0}};
  codes.insert(codes.end(), modules.begin(), modules.end());
  for (std::int64_t const n : divisors(std::max<std::int64_t>(1, chunk_layers))) {
    codes.push_back({RecomputeKind::uniform, static_cast<std::int32_t>(n)});
  }
  for (std::int64_t k = 1; k < chunk_layers; ++k) {
    codes.push_back({RecomputeKind::block, static_cast<std::int32_t>(k)});
  }
  return codes;
}

std::vector<PolicyCode> unit_policies(std::int64_t layers, std::span<PolicyCode const> modules) {
  std::vector<PolicyCode> codes = uniform_policies(layers, modules);
  std::erase_if(codes, [](PolicyCode const& code) {
    return code.kind == RecomputeKind::uniform && code.layers > 1;
  });
  return codes;
}

RecomputePolicy policy_of(PolicyCode code) {
  RecomputePolicy policy;
  switch (code.kind) {
    case RecomputeKind::none:
    case RecomputeKind::per_stage:
      break;
    case RecomputeKind::selective:
      policy.granularity = RecomputeGranularity::selective;
      break;
    case RecomputeKind::modules:
      policy.granularity = RecomputeGranularity::selective;
      policy.modules = modules_of(code);
      break;
    case RecomputeKind::uniform:
    case RecomputeKind::block:
      policy.granularity = RecomputeGranularity::full;
      policy.layers = code.layers;
      if (code.kind == RecomputeKind::block) policy.method = RecomputeMethod::block;
      break;
    case RecomputeKind::window:
      policy.granularity =
          code.layers == 0 ? RecomputeGranularity::selective : RecomputeGranularity::full;
      policy.store_microbatches.automatic = true;
      break;
  }
  return policy;
}

RecomputeKind kind_of(RecomputePolicy const& policy) {
  switch (policy.granularity) {
    case RecomputeGranularity::none:
      return RecomputeKind::none;
    case RecomputeGranularity::selective:
      return policy.modules == RecomputePolicy{}.modules ? RecomputeKind::selective
                                                         : RecomputeKind::modules;
    case RecomputeGranularity::full:
      break;
  }
  return policy.method == RecomputeMethod::block ? RecomputeKind::block : RecomputeKind::uniform;
}

}  // namespace stagecraft
