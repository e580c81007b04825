#pragma once

#include <functional>
#include <string>
#include <vector>

#include "libexec/executor/clocks.hpp"
#include "libexec/executor/job.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/training/training_config.hpp"
#include "tests/libexec/executor/small_runs.hpp"

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

/// Untied: a tied embedding's gradients are added in another order where the stages that hold it
/// differ.
TrainingConfig untied(TrainingConfig config);

/// ||got - wanted|| / ||wanted||. Pre: as many values.
double relative_distance(WholeTensor const& got, WholeTensor const& wanted);

/// Requires that every tensor differs by at most `allowed` times its norm.
void require_close(std::vector<WholeTensor> const& got,
                   std::vector<WholeTensor> const& wanted,
                   double allowed);

void require_same_bits(std::vector<WholeTensor> const& a, std::vector<WholeTensor> const& b);

/// Requires that loss, gradient norm and parameters of three iterations have the same bits.
void require_same_bits(TrainingConfig const& a, TrainingConfig const& b);

/// Requires that the gradients of an iteration differ by no more than `tolerance`, relative to each
/// tensor's norm.
void require_close(TrainingConfig const& a, TrainingConfig const& b, double tolerance);

/// Requires that loss and gradient norm of three iterations are the same but for rounding.
void require_alike_steps(TrainingConfig const& a, TrainingConfig const& b);

/// Trains a model of bytes on this project's README for 50 iterations, which must lower the loss by
/// 1, and by as much with other layouts. Returns the first loss.
double require_learning(TrainingConfig config, std::vector<ParallelLayout> const& layouts = {});

/// Runs one rank of a plan alone on the CPU, with synthetic tokens.
Execution execute_alone(TrainingPlan const& plan,
                        RankId rank,
                        CommunicationCosts const& costs,
                        ExecutionOptions const& options = {});

/// Requires that gradients are slopes of the loss, at four elements of each parameter whose name
/// `is_meant`. Returns how many parameters these are. Pre: the model is in fp64.
int require_slopes(TrainingConfig const& config,
                   std::function<bool(std::string const&)> const& is_meant);

/// Requires that every rank holds, at its peak, what the simulator predicts, in each category but
/// workspace.
void require_predicted_bytes(TrainingConfig const& config);

/// A run whose ranks are threads that share a CUDA device.
SmallRun on_device(int steps = 1);

/// The relative norm of the difference that a CUDA device and a CPU may have.
double device_tolerance(Precision precision);

/// Requires that every rank of the plan holds as many bytes on a CUDA device as on the CPU, by
/// category; the workspace of kernels apart.
void require_same_memory(TrainingConfig const& config);

}  // namespace stagecraft
