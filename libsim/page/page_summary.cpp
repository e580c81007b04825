#include "libsim/page/page_summary.hpp"

#include <algorithm>

#include "libsim/model/blocks.hpp"
#include "libsim/page/html_text.hpp"
#include "libsim/report/text_table.hpp"

namespace stagecraft {

namespace {

double seconds(std::int64_t picoseconds) { return static_cast<double>(picoseconds) * 1e-12; }

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::string gib_text(std::int64_t bytes) { return decimals(gib(bytes), 1) + "\u00a0GiB"; }

/// With the unit that leaves one to three digits before the point.
std::string time_text(double time) {
  if (time >= 1) return decimals(time, time >= 100 ? 1 : 2) + "\u00a0s";
  if (time >= 1e-3) return decimals(time * 1e3, time >= 0.1 ? 0 : 1) + "\u00a0ms";
  return decimals(time * 1e6, 1) + "\u00a0µs";
}

/// "14,217".
std::string grouped(double number) {
  std::string text = decimals(number, 0);
  for (std::size_t end = text.size(); end > 3; end -= 3) text.insert(end - 3, ",");
  return text;
}

std::string percent(double part, double whole) {
  return decimals(whole > 0 ? 100 * part / whole : 0, 1) + "\u00a0%";
}

/// Iteration time of a trace of a real run was measured, of others predicted.
bool is_measured(PageTrace const& trace) { return trace.meta.clock == TraceClock::wall; }

PageFact iteration_fact(PageTrace const& trace) {
  PageFact fact{
      .heading = "One iteration", .value = time_text(seconds(trace.iteration)), .sentence = {}};
  fact.sentence = is_measured(trace) ? "Measured" : "Predicted";
  fact.sentence +=
      " time of one training step, in which the whole global batch is worked through once";
  if (trace.config) {
    TrainingConfig const& training = trace.config->training;
    double const tokens =
        static_cast<double>(training.batch.global) * static_cast<double>(training.model.sequence);
    fact.sentence += ": " + grouped(static_cast<double>(training.batch.global)) + " sequences";
    if (trace.iteration > 0) {
      fact.sentence += ", " + grouped(tokens / seconds(trace.iteration)) + " tokens a second";
    }
  }
  fact.sentence += ".";
  return fact;
}

PageFact memory_fact(PageTrace const& trace) {
  RankFigures const& rank = fullest(trace);
  std::int64_t const peak = rank.at_peak.sum();
  PageFact fact{.heading = "Fullest stage", .value = gib_text(peak), .sentence = {}};
  std::string const where = "A GPU of stage " + std::to_string(rank.stage);
  if (!trace.config) {
    fact.sentence = where +
                    " holds the most. How much fits is not known: the configuration in the "
                    "trace does not load.";
    return fact;
  }
  std::int64_t const capacity = trace.config->system.accelerator.memory.value.count();
  std::int64_t const reserve = trace.config->training.memory.reserve.count();
  std::int64_t const left = capacity - reserve - peak;
  fact.sentence =
      where + " is " + percent(static_cast<double>(peak), static_cast<double>(capacity)) +
      " full at its fullest, " + time_text(seconds(rank.peak_time)) + " into the iteration. ";
  if (left >= 0) {
    fact.sentence += "Of its " + gib_text(capacity) + ", " + gib_text(left) + " stay free beside " +
                     gib_text(reserve) + " kept in reserve.";
  } else {
    fact.is_alarming = true;
    fact.sentence += "It does not fit: with " + gib_text(reserve) + " kept in reserve, " +
                     gib_text(-left) + " are missing of " + gib_text(capacity) + ".";
  }
  return fact;
}

/// Sums over ranks, so that the mean needs no division here.
struct Waiting {
  double waiting = 0;   ///< s, neither computing nor moving data
  double transfer = 0;  ///< s
  double iteration = 0;
};

Waiting waiting_of(PageTrace const& trace) {
  Waiting sum;
  for (RankFigures const& rank : trace.figures) {
    sum.iteration += seconds(trace.iteration);
    sum.transfer += seconds(rank.transfer);
    sum.waiting += seconds(trace.iteration - rank.busy - rank.transfer);
  }
  return sum;
}

PageFact waiting_fact(PageTrace const& trace) {
  Waiting const sum = waiting_of(trace);
  PageFact fact{.heading = "Time not computing",
                .value = percent(sum.waiting + sum.transfer, sum.iteration),
                .sentence = {}};
  if (sum.waiting + sum.transfer < 0.0005 * sum.iteration) {
    fact.sentence = "No GPU waits for another stage.";
    return fact;
  }
  auto const ranks = static_cast<double>(trace.figures.size());
  fact.sentence = "On average a GPU spends " + time_text(sum.waiting / ranks) + " (" +
                  percent(sum.waiting, sum.iteration) +
                  ") of an iteration with nothing to do, because it waits for other stages, and " +
                  time_text(sum.transfer / ranks) + " (" + percent(sum.transfer, sum.iteration) +
                  ") while data moves between stages.";
  return fact;
}

PageFact recompute_fact(PageTrace const& trace) {
  RankFigures const& rank = busiest(trace);
  PageFact fact{.heading = "Cost of recompute",
                .value = rank.recompute > 0 ? time_text(seconds(rank.recompute)) : "none",
                .sentence = {}};
  if (rank.recompute == 0) {
    fact.sentence =
        "Nothing is computed a second time: all that the backward pass needs is kept in memory.";
    return fact;
  }
  fact.sentence =
      "To save memory, parts of the forward pass are computed again in the backward "
      "pass. On stage " +
      std::to_string(rank.stage) + ", the busiest, that is " +
      percent(seconds(rank.recompute), seconds(trace.iteration)) + " of the iteration.";
  return fact;
}

std::string trace_name(std::size_t index) {
  return std::string(1, static_cast<char>('A' + index % 26));
}

std::string cards_html(std::vector<PageFact> const& facts) {
  std::string html = "<dl class=\"cards\">\n";
  for (PageFact const& fact : facts) {
    html += fact.is_alarming ? "<div class=\"card alarming\">" : "<div class=\"card\">";
    html += "<dt>" + html_text(fact.heading) + "</dt><dd class=\"value\">" + html_text(fact.value) +
            "</dd><dd>" + html_text(fact.sentence) + "</dd></div>\n";
  }
  return html + "</dl>\n";
}

std::string facts_table_html(std::vector<PageTrace> const& traces) {
  std::vector<std::vector<PageFact>> facts;
  facts.reserve(traces.size());
  for (PageTrace const& trace : traces) facts.push_back(facts_of(trace));
  std::string html = "<table class=\"facts\">\n<thead><tr><td></td>";
  for (std::size_t i = 0; i < traces.size(); ++i) {
    html += "<th scope=\"col\"><b>" + trace_name(i) + "</b> " + html_text(traces[i].file) +
            "<small>" + html_text(is_measured(traces[i]) ? "executed on " : "predicted for ") +
            html_text(traces[i].meta.device) + "</small></th>";
  }
  html += "</tr></thead>\n<tbody>\n";
  for (std::size_t row = 0; row < facts.front().size(); ++row) {
    html += "<tr><th scope=\"row\">" + html_text(facts.front()[row].heading) + "</th>";
    for (std::vector<PageFact> const& column : facts) {
      html += column[row].is_alarming ? "<td class=\"alarming\">" : "<td>";
      html += "<span class=\"value\">" + html_text(column[row].value) + "</span><p>" +
              html_text(column[row].sentence) + "</p></td>";
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

/// A bar of the rank's memory, by category, in parts of `whole`.
std::string bar_html(RankFigures const& rank, double whole) {
  std::string html = "<div class=\"bar\" aria-hidden=\"true\">";
  for (int i = 0; i < category_count; ++i) {
    auto const category = static_cast<Category>(i);
    double const width = whole > 0 ? 100 * gib(rank.at_peak[category]) / whole : 0;
    html += "<i class=\"m-" + std::string{name_of(category)} +
            "\" style=\"width:" + decimals(width, 2) + "%\"></i>";
  }
  return html + "</div>";
}

std::string number_cell(double value, int digits) {
  return "<td>" + decimals(value, digits) + "</td>";
}

bool has_ranks_of_job(PageTrace const& trace) {
  return std::any_of(trace.figures.begin(), trace.figures.end(),
                     [](RankFigures const& rank) { return rank.rank != rank.stage; });
}

std::string heading_cell(std::string const& text) { return "<th scope=\"col\">" + text + "</th>"; }

std::string table_head_html(PageTrace const& trace) {
  std::string html = "<thead><tr>" + heading_cell("stage");
  if (has_ranks_of_job(trace)) html += heading_cell("rank");
  for (char const* const text : {"computing", "of it recompute", "moving data", "waiting"}) {
    html += heading_cell(text);
  }
  for (int i = 0; i < category_count; ++i) {
    std::string const name{name_of(static_cast<Category>(i))};
    html +=
        "<th scope=\"col\" class=\"part\"><i class=\"swatch m-" + name + "\"></i>" + name + "</th>";
  }
  return html + heading_cell("peak") + heading_cell("peak at") +
         "<th scope=\"col\" class=\"wide\">" + (trace.config ? "of capacity" : "of the fullest") +
         "</th></tr></thead>\n";
}

std::string table_row_html(PageTrace const& trace, RankFigures const& rank, double whole) {
  std::string html = "<tr><th scope=\"row\">" + std::to_string(rank.stage) + "</th>";
  if (has_ranks_of_job(trace)) html += "<td>" + std::to_string(rank.rank) + "</td>";
  html += number_cell(seconds(rank.busy), 3) + number_cell(seconds(rank.recompute), 3) +
          number_cell(seconds(rank.transfer), 3) +
          number_cell(seconds(trace.iteration - rank.busy - rank.transfer), 3);
  for (int i = 0; i < category_count; ++i) {
    html += number_cell(gib(rank.at_peak[static_cast<Category>(i)]), 2);
  }
  return html + number_cell(gib(rank.at_peak.sum()), 2) + number_cell(seconds(rank.peak_time), 3) +
         "<td class=\"wide\">" + bar_html(rank, whole) + "</td></tr>\n";
}

}  // namespace

std::vector<PageFact> facts_of(PageTrace const& trace) {
  return {iteration_fact(trace), memory_fact(trace), waiting_fact(trace), recompute_fact(trace)};
}

std::string setting_of(PageTrace const& trace) {
  if (!trace.config) return "";
  TrainingConfig const& training = trace.config->training;
  ParallelLayout const& parallel = training.parallel;
  double const billions = static_cast<double>(parameter_count(training.model)) * 1e-9;
  std::string text = decimals(billions, billions < 10 ? 2 : 1) + " billion parameters on " +
                     std::to_string(world_size(parallel)) + " × " +
                     trace.config->system.accelerator.name + " · tensor " +
                     std::to_string(parallel.tensor) + ", pipeline " +
                     std::to_string(parallel.pipeline);
  if (parallel.interleave > 1) text += " × " + std::to_string(parallel.interleave) + " chunks";
  text += ", data " + std::to_string(parallel.data) + " · " +
          std::to_string(microbatches(training)) +
          (microbatches(training) == 1 ? " microbatch of " : " microbatches of ") +
          std::to_string(training.batch.micro);
  return text;
}

std::string summary_html(std::vector<PageTrace> const& traces) {
  return traces.size() == 1 ? cards_html(facts_of(traces.front())) : facts_table_html(traces);
}

std::string stage_table_html(PageTrace const& trace, std::string const& caption) {
  double whole = gib(fullest(trace).at_peak.sum());
  if (trace.config) {
    whole = std::max(whole, gib(trace.config->system.accelerator.memory.value.count()));
  }
  std::string html = "<table class=\"stages\">\n<caption>" + html_text(caption) + "</caption>\n" +
                     table_head_html(trace) + "<tbody>\n";
  for (RankFigures const& rank : trace.figures) {
    if (std::binary_search(trace.shown.begin(), trace.shown.end(), rank.rank)) {
      html += table_row_html(trace, rank, whole);
    }
  }
  return html + "</tbody></table>\n";
}

}  // namespace stagecraft
