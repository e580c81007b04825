#include "libsim/page/page_facts.hpp"

#include <algorithm>
#include <set>

#include "libsim/engine/flops.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/page/page_text.hpp"
#include "libsim/page/trace_origin.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/report/run_verdict.hpp"
#include "libsim/report/simulation_json.hpp"
#include "libsim/report/text_table.hpp"

namespace stagecraft {

namespace {

/// A member of a stage: a GPU if predicted; if executed a rank, which may be a thread on a CPU.
std::string member_of(PageTrace const& trace) { return is_executed(trace.meta) ? "rank" : "GPU"; }

bool is_decided_by_allocator(PageTrace const& trace) {
  return decides_by_allocator(trace.config->system.software);
}

std::string what_is_timed(TraceMeta const& meta) {
  switch (meta.clock) {
    case TraceClock::wall:
      return "Measured time of one training step";
    case TraceClock::virtual_time:
      return "Time of one training step, with measured computation and modelled communication";
    case TraceClock::solo:
      return "Time of one rank alone in one training step, with modelled communication";
    default:
      return "Predicted time of one training step";
  }
}

/// The 80 % interval of a simulated iteration, in which measured runs would lie. How sure a
/// prediction is follows from the simulation, which a trace does not hold; nothing is said of a
/// trace of another version, whose iteration differs.
std::string interval_sentence(PageTrace const& trace) {
  if (!trace.config || trace.meta.clock != TraceClock::simulated) return {};
  TrainingConfig const& training = trace.config->training;
  Simulation const simulation = simulate(make_plan(as_settled(training)), trace.config->system);
  if (simulation.iteration.count() != trace.iteration) return {};
  return " " + interval_text(interval_of(simulation, training, trace.config->system)) + ".";
}

PageFact iteration_fact(PageTrace const& trace) {
  PageFact fact{
      .heading = "One iteration", .value = time_text(seconds(trace.iteration)), .sentence = {}};
  fact.sentence = what_is_timed(trace.meta) + ", in which the whole global batch is processed once";
  if (trace.config) {
    TrainingConfig const& training = trace.config->training;
    double const tokens =
        static_cast<double>(training.batch.global) * static_cast<double>(training.model.sequence);
    fact.sentence += ": " + grouped(static_cast<double>(training.batch.global)) + " sequences";
    // A rank that ran alone ends before an iteration of the job would.
    if (trace.iteration > 0 && trace.meta.clock != TraceClock::solo) {
      fact.sentence += ", " + grouped(tokens / seconds(trace.iteration)) + " tokens per second";
    }
    bool const is_of_job =
        trace.meta.clock == TraceClock::simulated || trace.meta.clock == TraceClock::wall;
    if (trace.iteration > 0 && trace.capacity && is_of_job) {
      double const peak = peak_flops_per_second(training, trace.config->system);
      fact.sentence += ", " + percent_text(model_flops(training) / seconds(trace.iteration), peak) +
                       " of the peak of its GPUs (MFU" +
                       (peak_of_mfu(training).empty() ? "" : "; the " + peak_of_mfu(training)) +
                       ")";
    }
  }
  fact.sentence += "." + interval_sentence(trace);
  return fact;
}

/// The fullest stage of a trace whose device is not that of its configuration, or without one.
std::string fullest_somewhere(PageTrace const& trace, RankFigures const& rank) {
  std::string const where = "A " + member_of(trace) + " of stage " + std::to_string(rank.stage);
  std::string const when = ", " + time_text(seconds(rank.peak_time)) + " into the iteration. ";
  if (!trace.config) {
    return where + " holds the most" + when +
           "How much fits is not known: the configuration in the trace does not load.";
  }
  Accelerator const& planned = trace.config->system.accelerator;
  std::int64_t const capacity = planned.memory.value.count();
  return where + " holds the most" + when + "It ran on " + trace.meta.device +
         ", whose memory is not in the trace. Of the " + bytes_text(capacity) + " of an " +
         planned.name + ", which the run is configured for, it is " +
         percent_text(static_cast<double>(rank.at_peak.sum()), static_cast<double>(capacity)) + ".";
}

PageFact memory_fact(PageTrace const& trace) {
  RankFigures const& rank = fullest(trace);
  std::int64_t const peak = rank.at_peak.sum();
  PageFact fact{.heading = "Fullest stage", .value = bytes_text(peak), .sentence = {}};
  if (!trace.capacity) {
    fact.sentence = fullest_somewhere(trace, rank);
    return fact;
  }
  std::int64_t const capacity = *trace.capacity;
  std::int64_t const reserve = reserve_of(trace);
  std::int64_t const left = capacity - reserve - peak;
  std::string const beside =
      reserve > 0 ? " beside the " + bytes_text(reserve) + " of the reserve" : std::string{};
  fact.sentence = "A " + member_of(trace) + " of stage " + std::to_string(rank.stage) + " is " +
                  percent_text(static_cast<double>(peak), static_cast<double>(capacity)) +
                  " full at its peak, " + time_text(seconds(rank.peak_time)) +
                  " into the iteration. ";
  if (left >= 0) {
    fact.sentence +=
        "Of its " + bytes_text(capacity) + ", " + bytes_text(left) + " hold no tensor" + beside +
        "; " + (reserve > 0 ? "an allocator takes" : "allocator, driver, context and NCCL take") +
        " some of that" + (trace.predicted ? ": see the device." : ".");
  } else {
    fact.is_alarming = true;
    fact.sentence += "It does not fit: " +
                     (reserve > 0 ? "with " + bytes_text(reserve) + " kept in reserve, " : "") +
                     bytes_text(-left) + " are missing of " + bytes_text(capacity) + ".";
  }
  return fact;
}

bool has_one_stage(PageTrace const& trace) {
  if (trace.config) return trace.config->training.parallel.pipeline == 1;
  std::set<std::int32_t> stages;
  for (RankFigures const& rank : trace.figures) stages.insert(rank.stage);
  return stages.size() == 1;
}

/// Why a compute stream is idle. An executor also needs time between the starts of ops.
std::string reason_to_wait(PageTrace const& trace) {
  bool const is_alone = has_one_stage(trace);
  if (!is_executed(trace.meta)) {
    return is_alone ? "because it waits for other GPUs of its stage"
                    : "because it waits for other stages";
  }
  return is_alone ? "between its ops: it prepares the next one, or waits for ranks of its stage"
                  : "because it waits for other stages, or prepares its next op";
}

/// The waiting of a mean rank, if there are several stages: that of the busiest is the least.
std::string mean_sentence(PageTrace const& trace) {
  if (has_one_stage(trace)) return {};
  double waiting = 0;
  for (RankFigures const& rank : trace.figures) {
    waiting += seconds(rank.times.waiting(trace.iteration));
  }
  double const whole = static_cast<double>(trace.figures.size()) * seconds(trace.iteration);
  return " The mean over all stages is " + percent_text(waiting, whole) + ".";
}

PageFact waiting_fact(PageTrace const& trace) {
  RankFigures const& rank = busiest(trace);
  StreamTimes const& times = rank.times;
  std::int64_t const waiting = times.waiting(trace.iteration);
  auto const share = [&](std::int64_t time) {
    return percent_text(seconds(time), seconds(trace.iteration));
  };
  auto const part = [&](std::int64_t time) {
    return time_text(seconds(time)) + " (" + share(time) + ")";
  };
  PageFact fact{.heading = "Waiting of the busiest stage", .value = share(waiting), .sentence = {}};
  std::string const who = "A " + member_of(trace) + " of stage " + std::to_string(rank.stage);
  if (waiting < trace.iteration / 2000) {
    fact.sentence = who + " does not wait for another stage";
    fact.sentence += has_one_stage(trace) ? ": there is only one." : ".";
  } else {
    fact.sentence = who + " spends " + part(times.bubble(trace.iteration)) +
                    " of an iteration idle (bubble), " + reason_to_wait(trace);
    if (!has_one_stage(trace)) {
      fact.sentence += ", " + part(times.transfer) + " while data moves between stages";
    }
    if (times.data_parallel > 0) {
      fact.sentence +=
          ", and " + part(times.data_parallel) +
          " while gradients and parameters travel between the ranks that share its layers";
    }
    if (times.offload > 0) {
      fact.sentence +=
          ", and " + part(times.offload) + " while it waits for the host or the link to it";
    }
    fact.sentence += ".";
  }
  fact.sentence += mean_sentence(trace);
  if (times.host_wait > 0) {
    fact.sentence += " Of its busy time, " + part(times.host_wait) +
                     " is host wait: until the host has issued kernels.";
  }
  if (trace.config && trace.config->training.parallel.tensor > 1) {
    fact.sentence +=
        " Communication within a stage for which computation waits counts as computing.";
  }
  return fact;
}

PageFact recompute_fact(PageTrace const& trace) {
  RankFigures const& most = *std::ranges::max_element(trace.figures, {}, &RankFigures::recompute);
  PageFact fact{.heading = "Cost of recompute", .value = "none", .sentence = {}};
  if (most.recompute == 0) {
    fact.sentence =
        "Nothing is computed a second time: all that the backward pass needs is kept in memory.";
    return fact;
  }
  // The busiest stage determines the iteration; it need not be one that recomputes.
  RankFigures const& busy = busiest(trace);
  bool const is_on_busiest = busy.recompute > 0;
  RankFigures const& rank = is_on_busiest ? busy : most;
  fact.value = time_text(seconds(rank.recompute));
  fact.sentence =
      "To save memory, parts of the forward pass are computed again in the backward "
      "pass. On stage " +
      std::to_string(rank.stage) +
      (is_on_busiest ? ", the busiest, that is " : ", which recomputes most, that is ") +
      percent_text(seconds(rank.recompute), seconds(trace.iteration)) + " of the iteration.";
  if (!is_on_busiest) {
    fact.sentence += " Stage " + std::to_string(busy.stage) + ", the busiest, recomputes nothing.";
  }
  return fact;
}

}  // namespace

std::vector<PageFact> facts_of(PageTrace const& trace) {
  return {iteration_fact(trace), memory_fact(trace), waiting_fact(trace), recompute_fact(trace)};
}

PageFact device_fact(PageTrace const& trace) {
  PageFact fact{.heading = "On the device", .value = "not known", .sentence = {}};
  if (!trace.predicted) {
    fact.sentence =
        "What an allocator reserves is predicted if the trace's configuration makes its plan and "
        "names the device.";
    return fact;
  }
  Simulation const& predicted = *trace.predicted;
  StageResult const& stage = *std::ranges::min_element(predicted.stages, {}, &StageResult::margin);
  Verdict const verdict = verdict_of(predicted);
  System const& system = trace.config->system;
  FitProbability const fit = fit_probability_of(predicted, trace.config->training, system);
  fact.value = bytes_text(stage.device);
  fact.is_alarming = verdict == Verdict::does_not_fit;
  fact.sentence = "Predicted for stage " + std::to_string(stage.stage) +
                  ", which has least left: its allocator reserves " +
                  bytes_text(stage.reservation->reserved) + "; the rest is " +
                  (stage.outside ? "driver, context and NCCL" : "the reserve of the run") +
                  ". Of " + bytes_text(*trace.capacity) + ", " +
                  (stage.margin < 0 ? bytes_text(-stage.margin) + " are missing"
                                    : bytes_text(stage.margin) + " are left") +
                  ". The run " + std::string{text_of(verdict)} +
                  (fit.run ? ", with a probability of " + decimals(*fit.run, 3) : "");
  fact.sentence += is_decided_by_allocator(trace)
                       ? "."
                       : ", by its counted bytes and the replay of its tensors: what the framework "
                         "itself allocates is not described.";
  return fact;
}

}  // namespace stagecraft
