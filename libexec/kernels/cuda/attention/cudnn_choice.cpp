#include "libexec/kernels/cuda/attention/cudnn_choice.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

namespace stagecraft {

CudnnChoice::CudnnChoice(Sums sums, std::string folder, std::function<void(std::string const&)> say)
    : sums_{sums}, folder_{std::move(folder)}, say_{std::move(say)} {}

void* CudnnChoice::library() {
  std::string obstacle;
  {
    std::scoped_lock const lock{mutex_};
    if (!was_sought_) {
      was_sought_ = true;
      std::string const file = (folder_.empty() ? "" : folder_ + "/") + "libcudnn.so.9";
      library_ = dlopen(file.c_str(), RTLD_NOW);
      if (library_ == nullptr) obstacle = dlerror();
    }
  }
  if (!obstacle.empty()) say_once("cuDNN is not here: " + obstacle);
  return library_;
}

void CudnnChoice::say_once(std::string const& reason) {
  std::scoped_lock const lock{mutex_};
  if (said_.insert(reason).second) say_(reason);
}

std::string cudnn_obstacle(ElementType type, FlashSizes const& sizes, double dropout) {
  if (type != ElementType::bf16 && type != ElementType::f16) {
    return "cuDNN has attention in 16 bits only";
  }
  // It draws its masks otherwise, and takes one only as a tensor [b, heads, s, s].
  if (dropout > 0) return "cuDNN does not draw the plan's masks of dropout";
  if (sizes.softcap > 0) return "cuDNN is not used for scores with a cap";
  AttendedRows const& seen = sizes.attended;
  bool const is_square = seen.is_causal ? sizes.s == sizes.key_rows : sizes.window == 0;
  if (seen.queries != sizes.s || seen.keys != sizes.key_rows || !is_square) {
    return "cuDNN is not used for a part of a split sequence whose queries do not all see the same";
  }
  constexpr std::int64_t most = 256;
  if (std::max(sizes.d, sizes.value_d) > most || sizes.d % 8 != 0 || sizes.value_d % 8 != 0) {
    return "cuDNN has attention for heads of multiples of 8 elements, at most 256";
  }
  return {};
}

Bytes cudnn_workspace(FlashSizes const& sizes, CudnnChoice::Sums sums) {
  constexpr std::int64_t counters = 256;
  auto const whole = [](std::int64_t n, std::int64_t tile) { return (n + tile - 1) / tile * tile; };
  std::int64_t const heads = sizes.b * sizes.heads;
  std::int64_t const dot_products = 4 * heads * sizes.s;
  std::int64_t const shared_keys =
      sizes.heads == sizes.kv_heads ? 0 : 2 * heads * sizes.key_rows * (sizes.d + sizes.value_d);
  std::int64_t const of_q = sums == CudnnChoice::Sums::any_order
                                ? 4 * heads * sizes.s * sizes.d
                                : 2 * heads * whole(sizes.s, 64) * whole(sizes.key_rows, 128);
  return Bytes{dot_products + shared_keys + of_q + counters};
}

Bytes cudnn_workspace(KernelNeeds const& needs, CudnnChoice::Sums sums) {
  Bytes most;
  for (AttentionNeed const& need : needs.attention) {
    FlashSizes const sizes = flash_sizes(need.attributes, needs.sequence, need.q, need.k, need.v);
    if (!cudnn_obstacle(need.type, sizes, need.attributes.dropout.rate).empty()) continue;
    most = std::max(most, cudnn_workspace(sizes, sums));
  }
  return most;
}

}  // namespace stagecraft
