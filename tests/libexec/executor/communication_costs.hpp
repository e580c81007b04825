#pragma once

#include "libexec/executor/clocks.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// So dear that what computation takes does not count.
class DearCommunication : public CommunicationCosts {
 public:
  SimTime collective(Op const& /*op*/) const override { return std::chrono::seconds{1}; }
  MessageCost message(StageId /*from*/, StageId /*to*/) const override {
    return {.latency = std::chrono::seconds{1}, .occupancy = std::chrono::seconds{2}};
  }
};

/// Collectives that the compute stream of a rank of the first stage waits for one after the other,
/// in an iteration.
double collectives_in_a_row(TrainingPlan const& plan);

}  // namespace stagecraft
