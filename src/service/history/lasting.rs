//! Work that goes on when its caller leaves.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::runtime::Handle;

/// Work in the task of its caller. When the caller leaves, which is rare, it becomes a task of its own.
pub(super) struct Lasting<F>(Option<Pin<Box<F>>>)
where
    F: Future<Output: Send> + Send + 'static;

impl<F> Lasting<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    pub(super) fn of(work: F) -> Self {
        Self(Some(Box::pin(work)))
    }
}

impl<F> Future for Lasting<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Some(work) = &mut self.0 else { return Poll::Pending };
        let done = ready!(work.as_mut().poll(context));
        self.0 = None;
        Poll::Ready(done)
    }
}

impl<F> Drop for Lasting<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    fn drop(&mut self) {
        let work = self.0.take().filter(|_| !std::thread::panicking());
        // Without a runtime the process is ending.
        if let (Some(work), Ok(runtime)) = (work, Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_ends_in_the_task_of_its_caller() {
        assert_eq!(Lasting::of(async { 7 }).await, 7);
    }

    #[tokio::test]
    async fn work_goes_on_when_its_caller_leaves() {
        let (begin, begun) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel();
        let mut work = Lasting::of(async move {
            begun.await.unwrap();
            end.send("done").unwrap();
        });
        assert!(futures::poll!(&mut work).is_pending());
        drop(work);
        begin.send(()).unwrap();
        assert_eq!(ended.await, Ok("done"));
    }
}
