#include "libexec/comm/job_session.hpp"

namespace stagecraft {

JobSession::Numbers broadcast(JobSession& session, JobSession::Numbers const& numbers) {
  std::vector<JobSession::Numbers> parts;
  if (session.rank() == 0) parts.assign(static_cast<std::size_t>(session.size()), numbers);
  return session.scatter(parts);
}

void barrier(JobSession& session) {
  session.gather({});
  broadcast(session, {});
}

}  // namespace stagecraft
