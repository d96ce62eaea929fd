//! Questions that may take long, answered on a thread of their own: one that hangs must not stop who asks.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// Answers one question at a time.
pub(crate) struct Aside<Q, A> {
    questions: Sender<Q>,
    answers: Receiver<A>,
    /// Whether the last question has no answer yet.
    is_pending: bool,
    /// How long a question waits for its answer.
    pub(crate) wait: Duration,
}

impl<Q: Send + 'static, A: Send + 'static> Aside<Q, A> {
    /// How long a question waits for its answer, which usually takes less than 1 ms.
    const WAIT: Duration = Duration::from_millis(50);

    /// Begins the thread, which is called `name`. Without a thread, no question has an answer.
    pub(crate) fn begin(name: &str, answer: impl Fn(Q) -> A + Send + 'static) -> Self {
        let (questions, asked) = channel();
        let (answered, answers) = channel();
        let answer_all = move || {
            while let Ok(question) = asked.recv() {
                if answered.send(answer(question)).is_err() {
                    break;
                }
            }
        };
        let _ = thread::Builder::new().name(name.to_owned()).spawn(answer_all);
        Self { questions, answers, is_pending: false, wait: Self::WAIT }
    }

    /// Returns the answer to an earlier question, if it has come since.
    pub(crate) fn late(&mut self) -> Option<A> {
        let answer = self.answers.try_recv().ok()?;
        self.is_pending = false;
        Some(answer)
    }

    /// Returns whether an earlier question has no answer yet, so that no other can be asked.
    pub(crate) const fn is_pending(&self) -> bool {
        self.is_pending
    }

    /// Asks a question; `None` if its answer does not come in time, or an earlier one has none yet.
    pub(crate) fn ask(&mut self, question: Q) -> Option<A> {
        if self.is_pending {
            return None;
        }
        self.questions.send(question).ok()?;
        let answer = self.answers.recv_timeout(self.wait).ok();
        self.is_pending = answer.is_none();
        answer
    }
}
