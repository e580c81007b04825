#include "apps/python/bindings/documents.hpp"

#include "libsim/explain/explanation.hpp"
#include "libsim/explain/explanation_json.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/report/layer_report.hpp"

namespace stagecraft::python {

std::string explain_document(Run const& run, int jobs, bool has_pairs) {
  RunConfig config = run.ready();  // with its warnings
  config.training = run.as_read().training;
  return to_json(explain(config, {.jobs = jobs, .has_pairs = has_pairs}), config).dump();
}

std::string layer_document(Run const& run) {
  TrainingPlan const plan = make_plan(as_settled(run.ready().training));
  CostModel const cost{run.ready().system, plan};
  return layers_document(plan, report_layers(plan, cost)).dump();
}

}  // namespace stagecraft::python
