#pragma once

#include "libexec/executor/clocks.hpp"
#include "libsim/cost/cost_model.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The durations of communication on a system. The plan and the cost model must outlive the object.
class SystemCosts : public CommunicationCosts {
 public:
  SystemCosts(TrainingPlan const& plan, CostModel const& cost) : plan_{plan}, cost_{cost} {}

  SimTime collective(Op const& op) const override { return cost_.duration(op); }
  MessageCost message(StageId from, StageId to) const override {
    return cost_.message_cost(plan_, from, to);
  }

 private:
  TrainingPlan const& plan_;
  CostModel const& cost_;
};

}  // namespace stagecraft
