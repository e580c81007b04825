#include "libsim/page/plans_page.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "libsim/hardware/provenance.hpp"
#include "libsim/host/program_version.hpp"
#include "libsim/interval/measured_range.hpp"
#include "libsim/page/category_style.hpp"
#include "libsim/page/page_facts.hpp"
#include "libsim/page/page_files.hpp"
#include "libsim/page/page_summary.hpp"
#include "libsim/page/page_text.hpp"
#include "libsim/report/run_verdict.hpp"
#include "libsim/report/simulation_json.hpp"
#include "libsim/report/simulation_tables.hpp"
#include "libsim/report/text_table.hpp"

namespace stagecraft {

namespace {

/// The classes of parts_of(), in its order.
constexpr std::array<std::string_view, 10> part_classes{
    "forward", "backward", "recompute", "head",    "transfer",
    "bubble",  "data",     "optimizer", "offload", "host"};

OperatingFigures figures_of(PagePlan const& plan) {
  return operating_figures(to_seconds(plan.simulation->iteration),
                           plan.simulation->tokens_per_second, world_size(plan.config->parallel),
                           plan.rates);
}

std::string money(PagePlan const& plan, double amount) {
  std::string const& currency = plan.rates.currency;
  return (currency.empty() ? "" : currency + " ") + amount_text(amount);
}

/// "2 · 16 x dgx-h100": a plan among others.
std::string label_of(std::vector<PagePlan> const& plans, PagePlan const& plan) {
  return std::to_string(&plan - plans.data() + 1) + " · " + plan.cluster;
}

/// The stage with least left on its device.
StageResult const& tightest(PagePlan const& plan) {
  return *std::ranges::min_element(plan.simulation->stages, {}, &StageResult::margin);
}

/// Of which peak its MFU is a share.
std::string peak_words(PagePlan const& plan) {
  std::string const peak = peak_of_mfu(*plan.config);
  return peak.empty() ? "peak" : peak;
}

std::string interval_words(PagePlan const& plan) {
  TimeInterval const interval = interval_of(*plan.simulation, *plan.config, *plan.system);
  if (!interval.seconds) return "no interval is known";
  auto const [low, high] = *interval.seconds;
  return "80 %: " + time_text(low) + " to " + time_text(high);
}

std::vector<PageFact> facts_of(PagePlan const& plan, PageQuestion const& question) {
  OperatingFigures const figures = figures_of(plan);
  std::vector<PageFact> facts;
  facts.push_back(
      {.heading = question.faster.empty() ? "Best of the candidates" : "Best that can be started",
       .value = plan.cluster,
       .sentence = "Laid out as " + plan.layout + "." +
                   (question.faster.empty() ? "" : " " + question.faster)});
  facts.push_back(
      {.heading = "One iteration",
       .value = time_text(to_seconds(plan.simulation->iteration)),
       .sentence = grouped(plan.simulation->tokens_per_second) + " tokens per second, " +
                   decimals(100 * plan.simulation->mfu, 1) + " % of the " + peak_words(plan) +
                   " (MFU; " + decimals(100 * mfu_causal(*plan.simulation, *plan.config), 1) +
                   " % with causal attention counted half). " + interval_words(plan) + "."});
  std::string const hours = grouped(figures.gpu_hours_per_trillion_tokens) + " GPU hours";
  if (figures.cost_per_day) {
    std::string sentence = "Per 10^12 tokens, which take " + hours + ". A day costs " +
                           money(plan, *figures.cost_per_day) + ".";
    if (figures.days) {
      sentence += " Training on " + grouped(*plan.rates.tokens / 1e9) + " billion tokens takes " +
                  decimals(*figures.days, 1) + " days and costs " + money(plan, *figures.cost) +
                  ".";
    }
    facts.push_back({.heading = "Cost",
                     .value = money(plan, *figures.cost_per_trillion_tokens),
                     .sentence = sentence});
  } else {
    facts.push_back({.heading = "Per 10^12 tokens",
                     .value = hours,
                     .sentence = figures.days ? "Training on " + grouped(*plan.rates.tokens / 1e9) +
                                                    " billion tokens takes " +
                                                    decimals(*figures.days, 1) + " days."
                                              : "No price was given."});
  }
  StageResult const& stage = tightest(plan);
  facts.push_back({.heading = "Left on the fullest device",
                   .value = bytes_text(stage.margin),
                   .sentence = "Of " + bytes_text(plan.system->accelerator.memory.value.count()) +
                               ", " + bytes_text(stage.device) + " are in use on stage " +
                               std::to_string(stage.stage) + ".",
                   .is_alarming = stage.margin < 0});
  return facts;
}

std::string plan_cell(std::string const& text, std::string const& small = {}) {
  return "<td>" + html_text(text) +
         (small.empty() ? "" : "<small>" + html_text(small) + "</small>") + "</td>";
}

std::string column_heading(std::string const& text) {
  return "<th scope=\"col\">" + text + "</th>";
}

std::string candidates_html(std::vector<PagePlan> const& plans, std::size_t headline) {
  OperatingRates const& rates = plans.front().rates;
  std::string const currency = rates.currency.empty() ? "" : ", " + html_text(rates.currency);
  std::string html = "<table class=\"plans ranked\">\n<thead><tr>" + column_heading("cluster") +
                     "<th scope=\"col\" class=\"text\">layout</th>" + column_heading("iteration") +
                     column_heading("tokens/s") + column_heading("MFU") +
                     column_heading("GPU hours<br>per 10<sup>12</sup> tokens");
  if (rates.price) {
    html += column_heading("cost per day" + currency) +
            column_heading("cost per 10<sup>12</sup><br>tokens" + currency);
  }
  if (rates.tokens) html += column_heading("training");
  html +=
      column_heading("peak") + column_heading("left on<br>the device") + "</tr></thead>\n<tbody>\n";
  for (PagePlan const& plan : plans) {
    OperatingFigures const figures = figures_of(plan);
    Simulation const& simulation = *plan.simulation;
    std::int64_t peak = 0;
    for (StageResult const& stage : simulation.stages) peak = std::max(peak, stage.peak());
    bool const is_headline = &plan == &plans.at(headline);
    html +=
        std::string{is_headline ? "<tr class=\"chosen\">" : "<tr>"} + "<th scope=\"row\">" +
        html_text(label_of(plans, plan)) + "<small>" + html_text(plan.system->accelerator.name) +
        "</small></th><td class=\"text\">" + html_text(plan.layout) +
        (plan.note.empty() ? "" : "<small>" + html_text(plan.note) + "</small>") + "</td>" +
        plan_cell(time_text(to_seconds(simulation.iteration)), interval_words(plan)) +
        plan_cell(grouped(simulation.tokens_per_second)) +
        plan_cell(decimals(100 * simulation.mfu, 1) + " %",
                  decimals(100 * mfu_causal(simulation, *plan.config), 1) + " % causal" +
                      (peak_of_mfu(*plan.config).empty() ? "" : ", of the " + peak_words(plan))) +
        plan_cell(grouped(figures.gpu_hours_per_trillion_tokens));
    if (rates.price) {
      html += plan_cell(amount_text(*figures.cost_per_day),
                        amount_text(*plan.rates.price) + " per GPU hour") +
              plan_cell(amount_text(*figures.cost_per_trillion_tokens));
    }
    if (rates.tokens) {
      html += plan_cell(decimals(*figures.days, 1) + " days",
                        figures.cost ? money(plan, *figures.cost) : std::string{});
    }
    html += plan_cell(bytes_text(peak)) + plan_cell(bytes_text(tightest(plan).margin)) + "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

/// What a bar of a plan stands for: cost of a trillion tokens, or without a price GPU hours.
double spent(PagePlan const& plan) {
  OperatingFigures const figures = figures_of(plan);
  return figures.cost_per_trillion_tokens.value_or(figures.gpu_hours_per_trillion_tokens);
}

std::string spent_text(PagePlan const& plan, double share) {
  double const amount = share * spent(plan);
  return plan.rates.price ? money(plan, amount) : grouped(amount) + " h";
}

std::string key_html(std::string const& swatch, std::string const& name) {
  return "<span class=\"key\"><i class=\"swatch " + swatch + "\"></i>" + html_text(name) +
         "</span>";
}

std::string width_style(double percent) { return " style=\"width:" + decimals(percent, 2) + "%\""; }

/// A bar per plan, as long as what it spends, divided into what the busiest stage spends it on.
std::string spending_html(std::vector<PagePlan> const& plans) {
  double most = 0;
  for (PagePlan const& plan : plans) most = std::max(most, spent(plan));
  std::string legend = "<div class=\"legend\">";
  auto const names = parts_of(plans.front().simulation->breakdown);
  for (std::size_t i = 0; i < names.size(); ++i) {
    legend += key_html("p-" + std::string{part_classes.at(i)}, std::string{names.at(i).name});
  }
  std::string bars = "<div class=\"panel shares\">\n";
  std::string table =
      "<div class=\"scroll\"><table class=\"plans\"><thead><tr>" + column_heading("");
  for (PagePlan const& plan : plans) {
    bars += "<span>" + html_text(label_of(plans, plan)) +
            "</span><div class=\"bar\" aria-hidden=\"true\">";
    auto const parts = parts_of(plan.simulation->breakdown);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      double const share = to_seconds(parts.at(i).time) / to_seconds(plan.simulation->iteration);
      bars += "<i class=\"p-" + std::string{part_classes.at(i)} + "\"" +
              width_style(100 * share * spent(plan) / most) + "></i>";
    }
    bars += "</div><span>" + html_text(spent_text(plan, 1)) + "</span>\n";
    table += column_heading(html_text(label_of(plans, plan)));
  }
  table += "</tr></thead><tbody>\n";
  for (std::size_t i = 0; i < names.size(); ++i) {
    table += "<tr><th scope=\"row\">" + html_text(std::string{names.at(i).name}) + "</th>";
    for (PagePlan const& plan : plans) {
      double const share = to_seconds(parts_of(plan.simulation->breakdown).at(i).time) /
                           to_seconds(plan.simulation->iteration);
      table += plan_cell(decimals(100 * share, 1) + " %", spent_text(plan, share));
    }
    table += "</tr>\n";
  }
  return legend + "</div>\n" + bars +
         "</div>\n<p class=\"hint\">Per 10<sup>12</sup> tokens, by what the "
         "busiest pipeline stage spends its time on. Bubble is waiting for other stages; "
         "communication that "
         "computation hides costs nothing.</p>\n" +
         table + "</tbody></table></div>\n";
}

/// A bar per plan, as long as its device's memory.
std::string memory_html(std::vector<PagePlan> const& plans) {
  std::int64_t most = 0;
  for (PagePlan const& plan : plans) {
    most = std::max(most, plan.system->accelerator.memory.value.count());
  }
  auto const part = [&](std::string const& name, std::int64_t bytes) {
    double const percent = 100 * static_cast<double>(bytes) / static_cast<double>(most);
    return "<i class=\"" + name + "\"" + width_style(percent) + "></i>";
  };
  std::string legend = "<div class=\"legend\">";
  for (CategoryRow const& row : categories) {
    std::string const name{row.name};
    legend += key_html("m-" + name, name);
  }
  bool const has_reserve = std::ranges::any_of(
      plans, [](PagePlan const& plan) { return !plan.simulation->stages.front().outside; });
  legend += key_html("p-transfer", has_reserve ? "fragments, driver, context, NCCL or reserve"
                                               : "fragments, driver, context, NCCL") +
            key_html("hatched", "free") + "</div>\n";
  std::string bars = "<div class=\"panel shares\">\n";
  for (PagePlan const& plan : plans) {
    StageResult const& stage = tightest(plan);
    bars += "<span>" + html_text(label_of(plans, plan)) + "<br><small>stage " +
            std::to_string(stage.stage) + "</small></span><div class=\"bar\" aria-hidden=\"true\">";
    for (auto const& [category, name] : EnumNames<Category>::all) {
      bars += part("m-" + std::string{name}, stage.at_peak[category]);
    }
    bars += part("p-transfer", std::max<std::int64_t>(0, stage.device - stage.peak())) +
            part("p-bubble", std::max<std::int64_t>(0, stage.margin)) + "</div><span>" +
            html_text(bytes_text(stage.margin) + " free of " +
                      bytes_text(plan.system->accelerator.memory.value.count())) +
            "</span>\n";
  }
  return legend + bars + "</div>\n";
}

std::string uncertain_html(std::vector<PagePlan> const& plans, PageQuestion const& question) {
  std::vector<std::string> facts;
  auto const add = [&](std::string const& fact) {
    if (!fact.empty() && std::ranges::find(facts, fact) == facts.end()) facts.push_back(fact);
  };
  for (PagePlan const& plan : plans) {
    if (auto const warning = validation_warning(*plan.config, *plan.system)) add(*warning + ".");
  }
  for (PagePlan const& plan : plans) {
    add(label_of(plans, plan) + ": " +
        interval_text(interval_of(*plan.simulation, *plan.config, *plan.system)) + ".");
    std::vector<std::string> const settings = unmeasured_settings(*plan.config, *plan.system);
    if (!settings.empty())
      add(label_of(plans, plan) + ": not validated for " + joined(settings, ", ") + ".");
  }
  for (std::string const& remark : question.remarks) add(remark);
  OperatingRates const& rates = plans.front().rates;
  add(rates.hours_per_failure
          ? "Interruptions are counted in days and cost: " +
                goodput_text(*figures_of(plans.front()).goodput) + "."
          : "Interruptions, evaluation and checkpoints are not counted; --gpu-hours-per-failure "
            "counts them.");
  if (rates.price)
    add("A price is per GPU hour as it was given; it does not change with the load.");
  std::string html;
  for (std::string const& fact : facts) html += "<li>" + html_text(fact) + "</li>\n";
  return html;
}

}  // namespace

std::string plans_page(std::vector<PagePlan> const& plans, PageQuestion const& question) {
  std::string subtitle;
  for (std::string const& line : question.subtitle) subtitle += "<p>" + html_text(line) + "</p>\n";
  std::string const origins =
      "<details><summary>The command, and the run file of the plan "
      "above</summary>\n<dl><dt>Command</dt>"
      "<dd><code>" +
      html_text(question.command_line) + "</code></dd></dl>\n<pre tabindex=\"0\">" +
      html_text(question.run_file) + "</pre></details>\n";
  return filled(page_plans(),
                {{"title", html_text(question.title)},
                 {"subtitle", subtitle},
                 {"style", page_style()},
                 {"summary", cards_html(facts_of(plans.at(question.headline), question))},
                 {"candidates", candidates_html(plans, question.headline)},
                 {"spending-heading",
                  plans.front().rates.price ? "Where the money goes" : "Where the GPU hours go"},
                 {"spending", spending_html(plans)},
                 {"memory", memory_html(plans)},
                 {"uncertain", uncertain_html(plans, question)},
                 {"origins", origins},
                 {"program", html_text(program_version())}});
}

}  // namespace stagecraft
