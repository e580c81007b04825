#pragma once

#include "libexec/executor/clocks.hpp"
#include "libsim/cost/cost_model.hpp"

namespace stagecraft {

/// The durations of communication on a system. The cost model must outlive the object.
class SystemCosts : public CommunicationCosts {
 public:
  explicit SystemCosts(CostModel const& cost) : cost_{cost} {}

  SimTime collective(Op const& op) const override { return cost_.duration(op); }
  MessageCost message(StageId from, StageId to) const override {
    return cost_.message_cost(from, to);
  }

 private:
  CostModel const& cost_;
};

}  // namespace stagecraft
