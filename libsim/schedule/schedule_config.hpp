#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "libsim/schedule/orders/order_kind.hpp"
#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

using ScheduleKind = OrderKind;
enum class P2p : std::uint8_t { blocking, overlapped };

/// An order, or none, that all copies of a configuration share.
class SharedOrder {
 public:
  SharedOrder() = default;
  explicit SharedOrder(PipelineOrder order)
      : order_{std::make_shared<PipelineOrder const>(std::move(order))} {}
  explicit operator bool() const { return order_ != nullptr; }
  PipelineOrder const& operator*() const { return *order_; }
  PipelineOrder const* operator->() const { return order_.get(); }

  friend bool operator==(SharedOrder const& a, SharedOrder const& b) {
    return a.order_ == b.order_ || (a && b && *a == *b);
  }

 private:
  std::shared_ptr<PipelineOrder const> order_;
};

/// When stages may change their parameters. Key `schedule.step`.
enum class StepSync : std::uint8_t {
  barrier,  ///< once the norm of all gradients is known; all stages meet for it
  /// Ahead, by the norm of the stages up to the own one. The rest is validated while the next
  /// iteration warms up. Source: Qi et al. 2023, arXiv:2401.10241, section 4.
  post_validated,
};

/// Section `schedule`.
struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  /// Interleaved: microbatches per group, Megatron's microbatch_group_size_per_vp_stage; default p.
  int group = 0;
  P2p p2p = P2p::blocking;
  StepSync step = StepSync::barrier;
  bool scatter_gather = true;  ///< without sequence parallelism: send 1/t, gather at the receiver

  OrderVariant variant = OrderVariant::fixed;  ///< zbv
  std::optional<bool> fuse_adjacent{};         ///< split kinds; see OrderRequest
  /// zb_auto, zbv, v_auto, searched: the limit on each stage, in forwards of one chunk; see
  /// OrderRequest.
  std::optional<double> memory_limit{};
  std::int64_t seed = 1;              ///< searched
  std::int64_t iterations = 100'000;  ///< searched: changes that are tried
  double seconds = 10;                ///< searched: the most seconds that it takes
  SharedOrder order{};                ///< order: the given order

  friend bool operator==(ScheduleConfig const&, ScheduleConfig const&) = default;
};

}  // namespace stagecraft
