#include "libsim/plan/rank_programs.hpp"

#include "libsim/plan/plan_programs.hpp"

namespace stagecraft {

RankPrograms::RankPrograms(TrainingPlan const& plan, int rank) : plan_{plan} {
  if (plan.differs_by_rank()) own_ = programs_of_ranks(plan, {&rank, 1});
}

}  // namespace stagecraft
